"""The command `advise`: indexes that queries would gain from, and indexes that none uses."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.text import Text

from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.output import Field, format_option, print_records
from hive_bitmap.cli.records import thousands
from hive_bitmap.core.explaining.measures import seconds, size

if TYPE_CHECKING:
    from hive_bitmap.spark.advising.advise import Advice

CANDIDATE_FIELDS = (
    Field("table", "table"),
    Field("columns", "columns", ", ".join),
    Field("queries", "queries", thousands, right=True),
    Field("bytes_saved", "bytes saved", size, right=True),
    Field("seconds_saved", "time saved", seconds, right=True),
    Field("index_bytes", "size", size, right=True),
    Field("build_seconds", "build", seconds, right=True),
)


@click.command()
@click.argument("table", required=False)
@click.option(
    "--file",
    type=click.Path(dir_okay=False),
    help="The file of queries that servers write (spark.hive_bitmap.advice_file).",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Name at most so many new indexes."
)
@format_option
@click.pass_obj
def advise(endpoint: Endpoint, table: str | None, file: str | None, limit: int, format_: str) -> None:
    """Name indexes that queries would have gained from, and indexes that none has used.

    The queries are those in FILE, or those that this very process has planned. With TABLE, only its queries and indexes
    count. The statements that create the indexes are printed, too. As CSV, only the indexes to create are.

    \b
    Example:
      hive-bitmap advise --file /var/log/spark/advice.json
    """
    from hive_bitmap.spark.advising.advise import advise as run

    with endpoint.session() as spark:
        found = run(spark, file=file, table=table, limit=limit)
    if format_ == "json":
        sys.stdout.write(json.dumps(asdict(found), ensure_ascii=False, indent=2) + "\n")
        return
    if format_ == "csv":
        print_records("csv", [asdict(one) for one in found.candidates], CANDIDATE_FIELDS, "")
        return
    _print(found)


def _print(advice: Advice) -> None:
    from hive_bitmap.spark.advising.advise import time_of

    if advice.candidates:
        print_records("table", [asdict(one) for one in advice.candidates], CANDIDATE_FIELDS, "")
        sys.stdout.write("\n" + "".join(f"{one.statement};\n" for one in advice.candidates))
    if advice.unused:
        sys.stdout.write("\n" if advice.candidates else "")
        fields = (
            Field("table", "table"),
            Field("index", "unused index"),
            Field("columns", "columns", ", ".join),
            Field("index_bytes", "size", size, right=True),
            Field("built", "last build", time_of),
        )
        print_records("table", [asdict(one) for one in advice.unused], fields, "")
    for said in advice.notes:
        messages().print(Text(said), soft_wrap=True)
    if advice.queries:
        said = f"{advice.queries:,} scans seen since {time_of(advice.since)}"
        said += "" if advice.candidates else "; no index that does not exist would have saved them time"
        messages().print(Text(said), soft_wrap=True)
