"""The command `advise`: propose indexes that queries would gain from, and list unused ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.output import Field, format_option, print_records
from hive_bitmap.cli.records import thousands
from hive_bitmap.core.explaining.measures import seconds, size

if TYPE_CHECKING:
    from hive_bitmap.spark.advising.proposals import Advice


@click.command()
@click.argument("table", required=False)
@click.option(
    "--file",
    type=click.Path(dir_okay=False),
    help="The file of queries that servers write (spark.hive_bitmap.advice_file).",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Propose at most so many indexes."
)
@click.option(
    "--times",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Expect each query so many times as often as it was seen.",
)
@format_option
@click.pass_obj
def advise(endpoint: Endpoint, table: str | None, file: str | None, limit: int, times: int, format_: str) -> None:
    """Propose a set of indexes for the queries so far, and list unused indexes.

    The queries are those in FILE, or those that this process has planned. With TABLE, only its queries and indexes
    count. Each step of the set shows what the queries gain in addition, and what it costs. The statements that create
    the indexes are printed too, and the indexes that are left out, with the reason. As CSV, only the steps are printed.

    \b
    Example:
      hive-bitmap advise --file /var/log/spark/advice.json
    """
    from hive_bitmap.spark.advising.advise import advise as run

    with endpoint.session() as spark:
        advice = run(spark, file=file, table=table, limit=limit, times=times)
    if format_ == "json":
        sys.stdout.write(json.dumps(asdict(advice), ensure_ascii=False, indent=2) + "\n")
        return
    tables = _tables(advice)
    steps, fields_of_steps = tables[0]
    if format_ == "csv":
        print_records("csv", steps, fields_of_steps, "")
        return
    for number, (records, fields) in enumerate((records, fields) for records, fields in tables if records):
        sys.stdout.write("\n" if number else "")
        print_records("table", records, fields, "")
        if records is steps:
            sys.stdout.write(
                "\n" + "".join(f"{statement};\n" for step in advice.proposals for statement in step.statements)
            )
    for note in (*advice.notes, *filter(None, [advice.summary])):
        messages().print(Text(note), soft_wrap=True)


def _tables(advice: Advice) -> list[tuple[list[dict[str, Any]], Sequence[Field]]]:
    """Return records and fields of three tables: steps, left-out indexes and unused indexes."""
    from hive_bitmap.spark.advising.proposals import named, time_of

    steps = (
        Field("step", "step", right=True),
        Field("table", "table"),
        Field("columns", "index", named),
        Field("queries", "queries", thousands, right=True),
        Field("bytes_saved", "bytes saved", size, right=True),
        Field("seconds_saved", "time saved", seconds, right=True),
        Field("index_bytes", "size", size, right=True),
        Field("build_seconds", "build", seconds, right=True),
    )
    left_out = (Field("table", "table"), Field("columns", "left out", named), Field("why", "why"))
    unused = (
        Field("table", "table"),
        Field("index", "unused index"),
        Field("columns", "columns", lambda columns: named([columns])),
        Field("index_bytes", "size", size, right=True),
        Field("built", "last build", time_of),
    )
    return [
        ([{"step": number, **asdict(proposal)} for number, proposal in enumerate(advice.proposals, 1)], steps),
        ([asdict(candidate) for candidate in advice.left_out], left_out),
        ([asdict(index) for index in advice.unused], unused),
    ]
