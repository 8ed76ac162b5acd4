"""The command `refresh`: update the indexes of many tables, once or periodically."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hive_bitmap.cli.invocation import Endpoint, one_line
from hive_bitmap.cli.output import format_option, print_records
from hive_bitmap.cli.progress_bar import build_bar
from hive_bitmap.core.durations import interval_of
from hive_bitmap.core.explaining.measures import counted, or_dash, seconds, size
from hive_bitmap.core.explaining.reports import Field, figure
from hive_bitmap.core.table_info import for_people
from hive_bitmap.errors import HiveBitmapError, InvalidProperty

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.following.table_refresh import TableRefresh

_FIELDS = (
    Field("table", "table"),
    figure("indexes"),
    Field("done", "done"),
    figure("seconds", "time", seconds),
    Field("error", "error", or_dash),
)


def _interval(context: click.Context, parameter: click.Parameter, length: str | None) -> float | None:
    try:
        return None if length is None else interval_of(length, "it")
    except InvalidProperty as e:
        raise click.BadParameter(str(e)) from e


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--database", metavar="NAME", help="All tables of this database that have an index.")
@click.option("--all", "all_", is_flag=True, help="All tables of all databases that have an index.")
@click.option("--every", metavar="TIME", callback=_interval, help="Repeat it after a time, such as 5m, until Ctrl-C.")
@format_option
@click.pass_obj
def refresh(
    endpoint: Endpoint,
    /,
    tables: Sequence[str],
    database: str | None,
    all_: bool,
    every: float | None,
    format_: str,
) -> None:
    """Bring the indexes of TABLEs, or of all tables in the current database, up to date.

    For tables that other programs write, run this command from a scheduler. After writes of Spark, indexes with
    auto_refresh are refreshed without this command. Only partitions whose files have changed are checked, while
    `rebuild` checks all partitions and repairs damage. If a table fails, the other tables are still refreshed, and the
    exit status is 1.

    \b
    Example:
      hive-bitmap refresh --all
      hive-bitmap refresh flights --every 5m
    """
    if bool(tables) + (database is not None) + all_ > 1:
        raise click.UsageError("give only one of TABLEs, --database and --all")
    with endpoint.session() as spark:
        failed = _refresh_once(spark, tables, database, all_, format_)
        while every is not None:
            time.sleep(every)
            failed = _refresh_again(spark, tables, database, all_, format_)
    if failed:
        raise HiveBitmapError(f"{failed} of the tables could not be refreshed")


def _refresh_once(spark: SparkSession, tables: Sequence[str], database: str | None, all_: bool, format_: str) -> int:
    """Refresh the tables once; return the number of tables that failed.

    If `tables` is empty, all tables with an index are refreshed: with `all_` in all databases, else in `database` (None
    for the current database). A record is printed for each table.
    """
    from hive_bitmap.spark.following.table_refresh import refresh_table
    from hive_bitmap.spark.registry.catalog import indexed_tables

    records = []
    for table in tables or indexed_tables(spark, database, all_databases=all_):
        with build_bar(f"refreshing {for_people(table)}") as progress:
            records.append(_record(refresh_table(spark, table, progress)))
    print_records(format_, records, _FIELDS, "no table has an index")
    return sum(bool(record["error"]) for record in records)


def _refresh_again(spark: SparkSession, tables: Sequence[str], database: str | None, all_: bool, format_: str) -> int:
    """Refresh the tables again; return the number of tables that failed.

    The arguments are those of `_refresh_once`. Errors are printed instead of raised. A failure of the whole call, for
    example of the metastore, counts as one failed table.
    """
    from pyspark.errors import PySparkException

    try:
        return _refresh_once(spark, tables, database, all_, format_)
    except (HiveBitmapError, PySparkException, OSError) as e:
        click.echo(f"error: {one_line(e)}", err=True)
        return 1


def _record(result: TableRefresh) -> dict[str, Any]:
    return {
        "table": for_people(result.table),
        "indexes": len(result.reports),
        "files_read": result.files,
        "bytes_read": result.bytes,
        "done": _actions(result),
        "seconds": round(result.seconds, 3),
        "error": one_line(HiveBitmapError(result.error)) if result.error else "",
    }


def _actions(result: TableRefresh) -> str:
    """Describe what a refresh did, or that there was nothing to do."""
    if result.error:
        return "failed"
    dropped = max((report.partitions_dropped for report in result.reports), default=0)
    actions = [f"read {counted(result.files, 'file')} of {size(result.bytes)}"] if result.files else []
    actions += [f"dropped {counted(dropped, 'partition')}"] if dropped else []
    return ", ".join(actions) or "nothing to read, up to date"
