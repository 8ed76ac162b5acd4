"""The commands that make and refresh indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hive_bitmap.cli.index_options import compression_option, encoding_option, type_option
from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.name_lists import split_names, split_pairs
from hive_bitmap.cli.output import format_option, print_records
from hive_bitmap.cli.progress_bar import build_bar
from hive_bitmap.cli.records import BUILD_FIELDS, PREVIEW_FIELDS, REBUILD_FIELDS, preview_records, report_record

if TYPE_CHECKING:
    from hive_bitmap.building.build import BuildReport
    from hive_bitmap.building.preview import Preview


@click.command()
@click.argument("table")
@click.argument("columns", nargs=-1, required=True, type=split_names)
@click.option("--name", help="Name of the index; default: its columns, joined by _. For one index only.")
@type_option
@encoding_option
@compression_option
@click.option("--index-table", metavar="NAME", help="Name of the index table; default: <db>__<table>_<index>__.")
@click.option("--location", metavar="DIR", help="Folder of the index; default: under the warehouse.")
@click.option("--comment", default="", help="A comment on the index table.")
@click.option("--where", metavar="SQL", help="Cover only the partitions of which this is true.")
@click.option("--deferred", is_flag=True, help="Only register the index; rebuild fills it.")
@click.option("--if-not-exists", is_flag=True, help="Leave indexes that exist as they are.")
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
    """Create indexes on TABLE and build them in one pass.

    Each of COLUMNS makes one index; names joined by commas make one index with a composite key. A name that holds a
    comma goes in backticks, as in SQL.

    \b
    Example:
      hive-bitmap create flights carrier origin,dest --encoding roaring
    """
    from hive_bitmap.building.build import build

    single = [name for name in ("name", "index_table", "location") if options[name] is not None]
    if single and len(columns) > 1:
        raise click.UsageError(f"--{single[0].replace('_', '-')} is for one index, and {len(columns)} are asked for")
    with endpoint.session() as spark, build_bar(f"indexing {table}") as progress:
        reports = build(spark, table, columns, type=type_, progress=progress, **options)
    _print_reports(format_, reports, "nothing to do: every index exists")


@click.command()
@click.argument("table")
@click.argument("indexes", nargs=-1, metavar="[INDEX]...")
@click.option(
    "--partition",
    type=split_pairs,
    metavar="NAME=VALUE[,...]",
    help="Only partitions with these values of some or all partition columns, NULL and 'quotes' as in SQL.",
)
@click.option("--full", is_flag=True, help="Read all files anew, not only new and changed ones.")
@click.option("--compact", is_flag=True, help="Merge the small shards that refreshes have left.")
@click.option("--dry-run", is_flag=True, help="Only say what would be read and written.")
@format_option
@click.pass_obj
def rebuild(
    endpoint: Endpoint, /, table: str, indexes: Sequence[str], dry_run: bool, format_: str, **options: Any
) -> None:
    """Bring the indexes of TABLE up to date: all of them, or those named.

    Only new and changed files are read. Until the new state is complete, readers see the old one.

    \b
    Example:
      hive-bitmap rebuild flights_by_month carrier --partition month=2
    """
    if dry_run:
        from hive_bitmap.building.preview import preview

        with endpoint.session() as spark:
            previews = preview(spark, table, indexes, **options)
        _print_previews(format_, table, previews)
        return
    from hive_bitmap.building.build import rebuild as run

    with endpoint.session() as spark, build_bar(f"indexing {table}") as progress:
        reports = run(spark, table, indexes, progress=progress, **options)
    print_records(format_, [report_record(report) for report in reports], REBUILD_FIELDS, "")
    _tell_changes(reports)


def _print_reports(format_: str, reports: Sequence[BuildReport], nothing: str) -> None:
    print_records(format_, [report_record(report) for report in reports], BUILD_FIELDS, nothing)
    _tell_changes(reports)


def _tell_changes(reports: Sequence[BuildReport]) -> None:
    changed = max((report.changed for report in reports), default=0)
    if changed:
        messages().print(
            f"{changed:,} files arrived, changed or vanished meanwhile: what the build did not see is read whole until "
            "the next rebuild"
        )


def _print_previews(format_: str, table: str, previews: Sequence[Preview]) -> None:
    records = [record for one in previews for record in preview_records(one)]
    print_records(format_, records, PREVIEW_FIELDS, f"nothing to do: the indexes of {table} are up to date")
