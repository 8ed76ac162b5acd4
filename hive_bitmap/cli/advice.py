"""The command `advise`: propose indexes that would speed up queries, and list unused indexes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.text import Text

from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.output import format_option, print_records, print_reports
from hive_bitmap.core.explaining.reports import Field, HasFields, columns_of, record_of


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

    The queries are those in FILE, or those that this process has planned. With TABLE, only queries and indexes of this
    table count. The set is printed as numbered steps. A step is an index, or several indexes that only together answer
    queries. It shows what the queries gain in addition to earlier steps, and what the step costs. The statements that
    create the indexes are printed too. Indexes that are left out of the set are printed with the reason. With the
    format csv, only the steps are printed.

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
    steps = [{"step": number, **record_of(proposal)} for number, proposal in enumerate(advice.proposals, 1)]
    if format_ == "csv" or steps:
        print_records(format_, steps, [Field("step", "step", right=True), *columns_of(advice.proposals)], "")
    if format_ == "csv":
        return
    if steps:
        statements = (statement for proposal in advice.proposals for statement in proposal.statements)
        sys.stdout.write("\n" + "".join(f"{statement};\n" for statement in statements))
    others: list[Sequence[HasFields]] = [advice.left_out, advice.unused]
    for number, indexes in enumerate(filter(None, others)):
        sys.stdout.write("\n" if steps or number else "")
        print_reports("table", indexes, "")
    for note in (*advice.notes, *filter(None, [advice.summary])):
        messages().print(Text(note), soft_wrap=True)
