"""The commands `create` and `rebuild`: build indexes, and update them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hive_bitmap.cli.index_options import (
    aggregates_option,
    all_options,
    auto_refresh_option,
    compression_option,
    encoding_option,
    keep_removed_option,
    refresh_interval_option,
    split_keys,
    split_pairs,
    table_argument,
    tables_of,
    type_option,
)
from hive_bitmap.cli.invocation import Endpoint, messages, one_line
from hive_bitmap.cli.output import format_option, print_records, print_reports
from hive_bitmap.cli.progress_bar import build_bar
from hive_bitmap.cli.records import BUILD_COLUMNS, PREVIEW_COLUMNS, REBUILD_COLUMNS
from hive_bitmap.core.explaining.reports import Field, columns_of, record_of
from hive_bitmap.core.table_info import for_people
from hive_bitmap.errors import HiveBitmapError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.building.build import BuildReport
    from hive_bitmap.spark.building.preview import Preview


@click.command()
@click.argument("table")
@click.argument("columns", nargs=-1, required=True, type=split_keys)
@click.option("--name", help="Name of the index, if only one is created.  [default: its columns, joined by _]")
@type_option
@encoding_option
@compression_option
@click.option("--index-table", metavar="[DB.]NAME", help="Name of the index table.  [default: <db>__<table>_<index>__]")
@click.option("--location", metavar="DIR", help="Folder of the index.  [default: a folder in the warehouse]")
@click.option("--comment", default="", help="Comment on the index table.")
@click.option("--where", metavar="SQL", help="Index only partitions that satisfy this condition.")
@click.option("--deferred", is_flag=True, help="Register the index without building it; rebuild builds it.")
@click.option("--if-not-exists", is_flag=True, help="Skip indexes that already exist.")
@auto_refresh_option
@refresh_interval_option
@keep_removed_option
@aggregates_option
@format_option
@click.pass_obj
def create(
    endpoint: Endpoint,
    /,
    table: str,
    columns: Sequence[list[str]],
    format_: str,
    type_: str,
    **options: Any,
) -> None:
    """Create indexes on TABLE and build them.

    All indexes are built in one pass over the files. Each of COLUMNS creates one index. Several names joined by commas
    create one index with a composite key. Quote a name that contains a comma in backticks, as in SQL. An expression of
    columns is a key too, if it has a name.

    \b
    Example:
      hive-bitmap create flights carrier origin,dest --encoding roaring
      hive-bitmap create logs "date_trunc('HOUR', ts) AS hour"
    """
    from hive_bitmap.spark.building.build import build

    single = [name for name in ("name", "index_table", "location") if options[name] is not None]
    if single and len(columns) > 1:
        raise click.UsageError(f"--{single[0].replace('_', '-')} is for one index, but COLUMNS name {len(columns)}")
    with endpoint.session() as spark, build_bar(f"indexing {table}") as progress:
        reports = build(spark, table, columns, type=type_, progress=progress, **options)
    _print_reports(format_, reports, "nothing to do: every index exists", columns=BUILD_COLUMNS)


@click.command()
@click.argument("table", required=False)
@click.argument("indexes", nargs=-1, metavar="[INDEX]...")
@all_options
@click.option(
    "--partition",
    type=split_pairs,
    metavar="NAME=VALUE[,...]",
    help="Rebuild only partitions with these values of some or all partition columns; NULL and 'quoted' values as in "
    "SQL.",
)
@click.option("--full", is_flag=True, help="Read all files, not only new and changed ones.")
@click.option("--compact", is_flag=True, help="Merge small shards that earlier rebuilds have left.")
@click.option("--dry-run", is_flag=True, help="Show what would be read and why, without doing it.")
@click.option("--partitions", is_flag=True, help="With --dry-run, list the partitions that would change.")
@format_option
@click.pass_obj
def rebuild(
    endpoint: Endpoint,
    /,
    table: str | None,
    indexes: Sequence[str],
    all_: bool,
    database: str | None,
    dry_run: bool,
    partitions: bool,
    format_: str,
    **options: Any,
) -> None:
    """Update the indexes of TABLE, or of all tables.

    All indexes are updated, or only the named indexes. Only new and changed files are read. Readers see the old state
    of an index until the new state is complete.

    \b
    Example:
      hive-bitmap rebuild flights_by_month carrier --partition month=2
      hive-bitmap rebuild --all --database sales
    """
    if table_argument(table, all_, database) is None:
        if dry_run or options["partition"]:
            raise click.UsageError("--dry-run and --partition are for one table")
        with endpoint.session() as spark:
            _rebuild_all(spark, tables_of(spark, database, all_), format_, options)
        return
    assert table is not None
    if partitions and not dry_run:
        raise click.UsageError("--partitions lists what --dry-run would change: give both")
    if dry_run:
        from hive_bitmap.spark.building.preview import preview

        with endpoint.session(jobs=False) as spark:
            previews = preview(spark, table, indexes, **options)
        _print_previews(format_, table, previews, partitions)
        return
    from hive_bitmap.spark.building.build import rebuild as run

    with endpoint.session() as spark, build_bar(f"indexing {table}") as progress:
        reports = run(spark, table, indexes, progress=progress, **options)
    _print_reports(format_, reports, "", columns=REBUILD_COLUMNS)


def _rebuild_all(spark: SparkSession, tables: Sequence[str], format_: str, options: Mapping[str, Any]) -> None:
    """Rebuild the indexes of each table; continue after a table that fails.

    `options` are the other arguments of `build.rebuild`. The reports on all tables are printed in the format `format_`.
    Raise HiveBitmapError at the end if a table failed.
    """
    from pyspark.errors import PySparkException

    from hive_bitmap.spark.building.build import rebuild as run

    reports, failed = [], 0
    for table in tables:
        try:
            with build_bar(f"indexing {for_people(table)}") as progress:
                reports += run(spark, table, progress=progress, **options)
        except (HiveBitmapError, PySparkException, OSError) as e:
            failed += 1
            print(f"hive-bitmap: {for_people(table)}: {one_line(e)}", file=sys.stderr)  # noqa: T201 - an error, also with --quiet
    _print_reports(format_, reports, "no table has an index", columns=REBUILD_COLUMNS, with_table=True)
    if failed:
        raise HiveBitmapError(f"the indexes of {failed} of {len(tables)} tables could not be rebuilt")


def _print_reports(format_: str, reports: Sequence[BuildReport], empty_message: str, **options: Any) -> None:
    print_reports(format_, reports, empty_message, **options)
    changed = max((report.changed for report in reports), default=0)
    if changed:
        messages().print(
            f"{changed:,} files were added, changed or deleted during the build; queries read files that the build did "
            "not see whole, until the next rebuild"
        )


def _print_previews(format_: str, table: str, previews: Sequence[Preview], partitions: bool) -> None:
    nothing = f"nothing to do: the indexes of {table} are up to date"
    if not partitions:
        with_changes = [preview for preview in previews if preview.partitions]
        print_reports(format_, with_changes, nothing, columns=PREVIEW_COLUMNS)
        return
    records = [record for preview in previews for record in record_of(preview)["partitions"]]
    changed = [partition for preview in previews for partition in preview.partitions]
    print_records(format_, records, [Field("index", "index"), *columns_of(changed)], nothing)
