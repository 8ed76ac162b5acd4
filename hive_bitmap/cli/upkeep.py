"""Define the commands for existing indexes: `show`, `rename`, `attach`, `set`, `drop` and `clean`."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

import click
from rich.markup import escape

from hive_bitmap.cli import server
from hive_bitmap.cli.index_options import all_options, split_pairs, table_argument, tables_of
from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.output import format_option, print_lines, print_records, print_reports
from hive_bitmap.cli.progress_bar import build_bar
from hive_bitmap.cli.records import LEFTOVER_FIELDS, REBUILD_COLUMNS, behind_its_table, details, leftover_record
from hive_bitmap.core.explaining.reports import record_of
from hive_bitmap.core.index.markers import GRACE_SECONDS
from hive_bitmap.errors import NotFound

MOST_HOURS = 1_000_000  # maximum of --grace, more than a century


@click.command()
@click.argument("table", required=False)
@click.argument("index", required=False)
@all_options
@click.option("--keys", is_flag=True, help="Also count the distinct keys, with a Spark job for each index.")
@format_option
@click.pass_obj
def show(
    endpoint: Endpoint,
    table: str | None,
    index: str | None,
    all_: bool,
    database: str | None,
    keys: bool,
    format_: str,
) -> None:
    """Show the indexes of TABLE, or of all tables, and the files that the indexes cover.

    With INDEX, only this index is shown, with its partitions.

    Files are fresh (unchanged since they were indexed), stale (changed since), unindexed (not known to the index) or
    gone (known to the index, but deleted). Queries read stale and unindexed files whole, so their answers are always
    right.

    \b
    Example:
      hive-bitmap show flights --format json
    """
    from hive_bitmap.spark.maintaining.show import show as run

    if table_argument(table, all_, database) is None:
        with endpoint.session(jobs=False) as spark:
            statuses = [status for name in tables_of(spark, database, all_) for status in run(spark, name)]
        print_reports(format_, statuses, "no table has an index", with_table=True)
        return
    assert table is not None
    if endpoint.address is not None and not keys:
        server.show(endpoint, table, index, format_)
        return
    with endpoint.session(jobs=keys) as spark:
        statuses = run(spark, table, keys=keys)
    if index is not None:
        names = [status.definition.name for status in statuses]
        statuses = [status for status in statuses if status.definition.name == index.lower()]
        if not statuses:
            raise NotFound.of("index", index, names, f"table {table}")
    if index is None or format_ != "table":
        print_reports(format_, statuses, f"table {table} has no index")
        for status in statuses:
            definition = status.definition
            if status.problem:
                messages().print(f"[yellow]{definition.name}: {escape(status.problem)}", soft_wrap=True)
            if definition.auto_refresh and (behind := behind_its_table(status)):
                messages().print(f"[yellow]{escape(behind)}", soft_wrap=True)
            if status.next_rebuild:
                messages().print(f"{definition.name}: {status.next_rebuild}", markup=False)
            if definition.next_encoding:
                later = f"{definition.name}: {definition.next_encoding} from its next rebuild on"
                messages().print(later, markup=False)
        return
    [status] = statuses
    print_lines(details({name: value for name, value in record_of(status).items() if name != "partitions"}))
    if any(partition.name for partition in status.partitions):
        print_reports(format_, status.partitions, "")


@click.command()
@click.argument("table")
@click.argument("index")
@click.argument("name")
@click.pass_obj
def rename(endpoint: Endpoint, table: str, index: str, name: str) -> None:
    """Rename INDEX of TABLE to NAME.

    The index table of INDEX is renamed as well.

    \b
    Example:
      hive-bitmap rename flights carrier airline
    """
    from hive_bitmap.spark.maintaining.alter import rename as run

    with endpoint.session(jobs=False) as spark:
        run(spark, table, index, name)
    messages().print(f"renamed index {index} on {table} to {name}", markup=False)


@click.command()
@click.argument("table")
@click.option("--from", "former", required=True, metavar="NAME", help="The name that the table had.")
@format_option
@click.pass_obj
def attach(endpoint: Endpoint, table: str, former: str, format_: str) -> None:
    """Give TABLE, which was renamed, the indexes of its former name.

    No file of the table is read again, unless the file has changed. A session with indexes enabled attaches the indexes
    itself when the session renames a table.

    \b
    Example:
      hive-bitmap attach flights_2013 --from flights
    """
    from hive_bitmap.spark.maintaining.attach import attach as run

    with endpoint.session() as spark, build_bar(f"attaching {table}") as progress:
        reports = run(spark, table, former, progress=progress)
    print_reports(format_, reports, "the indexes were already attached", columns=REBUILD_COLUMNS)


@click.command("set")
@click.argument("table")
@click.argument("index")
@click.argument("properties", type=split_pairs, metavar="NAME=VALUE[,...]")
@click.pass_obj
def set_(endpoint: Endpoint, table: str, index: str, properties: Mapping[str, str | None]) -> None:
    """Set properties of INDEX of TABLE.

    The properties enabled, comment, auto_refresh and refresh_interval take effect at once. The properties encoding,
    compression and keep_removed (of Delta and Iceberg) take effect with the next rebuild.

    \b
    Example:
      hive-bitmap set flights carrier enabled=false
    """
    from hive_bitmap.spark.maintaining.alter import set_properties

    with endpoint.session(jobs=False) as spark:
        set_properties(spark, table, index, {name: value or "" for name, value in properties.items()})
    late = {"encoding", "compression", "keep_removed"} & {name.lower() for name in properties}
    later = " (takes effect with the next rebuild)" if late else ""
    messages().print(f"set {', '.join(properties)} of index {index} on {table}{later}", markup=False)


@click.command()
@click.argument("table")
@click.argument("index")
@click.option("--if-exists", is_flag=True, help="Do not fail if the index or the table does not exist.")
@click.option("--where", metavar="SQL", help="Drop only partitions that satisfy this condition on partition columns.")
@click.pass_obj
def drop(endpoint: Endpoint, table: str, index: str, if_exists: bool, where: str | None) -> None:
    """Drop INDEX of TABLE and delete the files of INDEX.

    \b
    Example:
      hive-bitmap drop flights carrier
    """
    from hive_bitmap.spark.maintaining.drop import drop as run

    with endpoint.session(jobs=False) as spark:
        dropped = run(spark, table, index, if_exists=if_exists, where=where)
    partitions = f" for the partitions where {where}" if where else ""
    done = f"dropped index {index} on {table}{partitions}" if dropped else f"table {table} has no index {index}"
    messages().print(done, markup=False)


def _hours(context: click.Context, parameter: click.Parameter, hours: float) -> float:
    if isnan(hours):  # NaN passes the check of the range, because comparisons with it are false
        raise click.BadParameter("it is a number of hours")
    return hours


@click.command()
@click.argument("table", required=False)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted and why, without deleting it.")
@click.option(
    "--grace",
    type=click.FloatRange(0, MOST_HOURS),
    callback=_hours,
    default=GRACE_SECONDS / 3600,
    show_default=True,
    metavar="HOURS",
    help="How long replaced files are kept for queries that still read them.",
)
@click.option("--location", help="LOCATION of an index whose index table was dropped by other means.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Keep the folders that this metastore marked before it moved. Never on a copy of a metastore in use.",
)
@format_option
@click.pass_obj
def clean(
    endpoint: Endpoint,
    table: str | None,
    dry_run: bool,
    grace: float,
    location: str | None,
    take_over: bool,
    format_: str,
) -> None:
    """Delete unused files of indexes.

    A file is unused if it was replaced or dropped, or if a failed build left it behind. Only files of the indexes of
    TABLE are deleted; without TABLE, files of the indexes of all tables in the current database. A file is kept if a
    table references it, if a running build may be writing it, or if it cannot be identified as a file of an index of
    this metastore.

    \b
    Example:
      hive-bitmap clean --dry-run
    """
    from hive_bitmap.spark.maintaining.clean import clean as run

    with endpoint.session(jobs=False) as spark:
        leftovers = run(
            spark, table, location=location, grace_seconds=grace * 3600, dry_run=dry_run, take_over=take_over
        )
    records = [leftover_record(leftover, dry_run) for leftover in leftovers]
    print_records(format_, records, LEFTOVER_FIELDS, "nothing is left over")
