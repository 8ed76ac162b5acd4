"""The commands for the life of an index after its build: show, rename, set, drop, clean."""

from __future__ import annotations

from collections.abc import Mapping

import click
from rich.markup import escape

from hive_bitmap.cli import server
from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.name_lists import split_pairs
from hive_bitmap.cli.output import format_option, print_lines, print_records
from hive_bitmap.cli.records import (
    LEFTOVER_FIELDS,
    PARTITION_FIELDS,
    SHOW_FIELDS,
    details,
    leftover_record,
    status_record,
)
from hive_bitmap.errors import NotFound
from hive_bitmap.index.generation import GRACE_SECONDS


@click.command()
@click.argument("table")
@click.argument("index", required=False)
@click.option("--keys", is_flag=True, help="Count the distinct keys too, by a Spark job over each index table.")
@format_option
@click.pass_obj
def show(endpoint: Endpoint, table: str, index: str | None, keys: bool, format_: str) -> None:
    """Show the indexes of TABLE, or one with its partitions, and what they cover of the files that are there now.

    fresh: files as the index saw them; stale: changed since; unindexed: not known; gone: known, but no more there.
    Queries read stale and unindexed files whole, so that answers are right whatever an index covers.

    \b
    Example:
      hive-bitmap show flights --format json
    """
    from hive_bitmap.maintaining.show import show as run

    if endpoint.address is not None and not keys:
        server.show(endpoint, table, index, format_)
        return
    with endpoint.session() as spark:
        records = [status_record(status) for status in run(spark, table, keys=keys)]
    if index is not None:
        known = [record["index"] for record in records]
        records = [record for record in records if record["index"] == index.lower()]
        if not records:
            raise NotFound.of("index", index, known, f"table {table}")
    if index is None or format_ != "table":
        print_records(format_, records, SHOW_FIELDS, f"table {table} has no index")
        for record in records:
            if record["problem"]:
                messages().print(f"[yellow]{record['index']}: {escape(record['problem'])}", soft_wrap=True)
            if "next_encoding" in record:
                messages().print(f"{record['index']}: {record['next_encoding']} from its next rebuild on", markup=False)
        return
    [record] = records
    partitions = record.pop("partitions")
    print_lines(details(record))
    if any(partition["partition"] for partition in partitions):
        print_records(format_, partitions, PARTITION_FIELDS, "")


@click.command()
@click.argument("table")
@click.argument("index")
@click.argument("name")
@click.pass_obj
def rename(endpoint: Endpoint, table: str, index: str, name: str) -> None:
    """Give INDEX of TABLE another NAME, and its index table the name that goes with it.

    \b
    Example:
      hive-bitmap rename flights carrier airline
    """
    from hive_bitmap.maintaining.alter import rename as run

    with endpoint.session() as spark:
        run(spark, table, index, name)
    messages().print(f"index {index} on {table} is {name} now", markup=False)


@click.command("set")
@click.argument("table")
@click.argument("index")
@click.argument("properties", type=split_pairs, metavar="NAME=VALUE[,...]")
@click.pass_obj
def set_(endpoint: Endpoint, table: str, index: str, properties: Mapping[str, str | None]) -> None:
    """Set properties of INDEX of TABLE: enabled, comment, encoding, compression.

    The first two count at once, the others from the next rebuild on.

    \b
    Example:
      hive-bitmap set flights carrier enabled=false
    """
    from hive_bitmap.maintaining.alter import set_properties

    with endpoint.session() as spark:
        set_properties(spark, table, index, {name: value or "" for name, value in properties.items()})
    later = " (counts from the next rebuild on)" if {"encoding", "compression"} & set(properties) else ""
    messages().print(f"set {', '.join(properties)} of index {index} on {table}{later}", markup=False)


@click.command()
@click.argument("table")
@click.argument("index")
@click.option("--if-exists", is_flag=True, help="Succeed where there is no such index, or no such table.")
@click.option("--where", help="Drop only what it covers of partitions of which this is true: SQL over their columns.")
@click.pass_obj
def drop(endpoint: Endpoint, table: str, index: str, if_exists: bool, where: str | None) -> None:
    """Drop INDEX of TABLE and delete its files, and nothing else.

    \b
    Example:
      hive-bitmap drop flights carrier
    """
    from hive_bitmap.maintaining.drop import drop as run

    with endpoint.session() as spark:
        dropped = run(spark, table, index, if_exists=if_exists, where=where)
    of = f" for the partitions where {where}" if where else ""
    said = f"dropped index {index} on {table}{of}" if dropped else f"table {table} has no index {index}"
    messages().print(said, markup=False)


@click.command()
@click.argument("table", required=False)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted, and why.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=GRACE_SECONDS / 3600,
    show_default=True,
    metavar="HOURS",
    help="How long what was replaced is kept for readers in flight.",
)
@click.option("--location", help="The LOCATION of an index whose table others dropped.")
@format_option
@click.pass_obj
def clean(
    endpoint: Endpoint, table: str | None, dry_run: bool, grace: float, location: str | None, format_: str
) -> None:
    """Delete what builds of the indexes of TABLE, or of the database, left behind: replaced, half-built, dropped.

    Nothing goes that a table points at, that a build may be working on, or that is not proven to be of an index.

    \b
    Example:
      hive-bitmap clean --dry-run
    """
    from hive_bitmap.maintaining.clean import clean as run

    with endpoint.session() as spark:
        left = run(spark, table, location=location, grace_seconds=grace * 3600, dry_run=dry_run)
    records = [leftover_record(leftover, dry_run) for leftover in left]
    print_records(format_, records, LEFTOVER_FIELDS, "nothing is left over")
