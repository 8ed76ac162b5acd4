"""`make demo`, or `python -m demo`: load flights, index them, run queries, compare with Spark, and draw a block map."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rich.text import Text

import hive_bitmap
from bench import tables
from demo import flights
from demo.questions import INDEXED, QUESTIONS, REPEATS, Outcome, ask
from hive_bitmap.core.explaining.explain import to_html, to_text
from hive_bitmap.core.explaining.measures import percent, seconds, size
from hive_bitmap.errors import HiveBitmapError

WAREHOUSE = Path("demo-warehouse")
TABLES = ("flights", "flights_by_month")
NOTES = (
    "Each query is plain SQL and runs with the indexes and with hive_bitmap.enabled = false. Times are the median of "
    f"{REPEATS} warm runs of each, planning included. ✓: rows and types are the same.\n"
    "A full scan means that the planner found an index to save too little: the query then takes as long as with Spark "
    "alone, plus the time to find that out.\n"
)


def main() -> int:
    """Run the demo. Return the exit status: 0 if every answer equals Spark's own, else 1."""
    console = Console(highlight=False)
    console.rule(f"[bold]hive_bitmap[/]: a year's flights from New York, {flights.YEARS} times")
    _clear(WAREHOUSE)
    with _step(console, "Spark started"):
        spark = hive_bitmap.session(WAREHOUSE, app_name="hive_bitmap demo")
    copies = f"{flights.ROWS * flights.YEARS:,} flights (those of 2013, repeated for each of {flights.YEARS} years)"
    with _step(console, f"{copies} loaded, as Parquet, and as ORC with one partition per month"):
        flights.load(spark)
    for table in TABLES:
        _build(console, spark, table)
    _follow(console, spark)
    outcomes = _ask_all(console, spark)
    _show_offsets(console, spark, outcomes[0])
    _show_map(console, outcomes[0])
    _advise(console, spark)
    spark.stop()
    if not all(outcome.equal for outcome in outcomes):
        console.print("[bold red]An answer differs from Spark's own: this is a bug in hive_bitmap.")
        return 1
    return 0


def _clear(warehouse: Path) -> None:
    """Remove the warehouse of an earlier run. Raise SystemExit for any other folder."""
    if warehouse.exists() and not (warehouse / ".metastore").is_dir():
        raise SystemExit(f"{warehouse.absolute()} is not a warehouse of this demo; move it away")
    shutil.rmtree(warehouse, ignore_errors=True)


@contextmanager
def _step(console: Console, done: str) -> Iterator[None]:
    start = time.perf_counter()
    with console.status("[dim]working"):
        yield
    console.print(f"[green]✓[/] {done} [dim]in {seconds(time.perf_counter() - start)}")


def _build(console: Console, spark: SparkSession, table: str) -> None:
    with console.status(f"[dim]indexing {table}"):
        reports = hive_bitmap.build(spark, table, INDEXED, auto_refresh=True)
    base, index = reports[0].base_bytes, sum(report.index_bytes for report in reports)
    console.print(
        f"[green]✓[/] {table}: {len(reports)} indexes ({', '.join(INDEXED)}), {size(index)} for {size(base)} of data, "
        f"[dim]built in one pass in {seconds(reports[0].seconds)}"
    )


def _follow(console: Console, spark: SparkSession) -> None:
    """Insert another year, and wait until the indexes have followed."""
    with _step(console, f"year {flights.YEARS + 1} inserted"):
        flights.insert_year(spark)
    with _step(console, "the indexes have followed by themselves"):
        hive_bitmap.refreshed(spark)
    [*_, status] = hive_bitmap.show(spark, "flights")
    unindexed = sum(one.unindexed for one in hive_bitmap.show(spark, "flights"))
    last = status.last_refresh
    if last is not None:
        console.print(
            f"  [dim]{last.files} new files read once for all {len(INDEXED)} indexes in {seconds(last.seconds)}; "
            f"{unindexed} files are not indexed now"
        )


def _ask_all(console: Console, spark: SparkSession) -> list[Outcome]:
    outcomes = []
    for question in QUESTIONS:
        with console.status(f"[dim]running: {question.text}"):
            outcomes.append(ask(spark, question))
        console.print(Text.assemble("? ", (question.text, "bold"), "\n  ", (question.sql, "dim")))
    console.print()
    tables.show(console, outcomes_table(outcomes))
    console.print(Text(NOTES, "dim"))
    return outcomes


def outcomes_table(outcomes: Iterable[Outcome]) -> Table:
    """Return a table with a row per question: what its query reads and how long it takes, with and without indexes."""
    table = Table(box=None, title="Queries with the indexes, and with Spark alone", title_justify="left")
    table.add_column("question")
    table.add_column("strategy")
    for heading in ("rows", "blocks\nread", "with\nindex", "Spark\nalone", "times\nfaster"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        table.add_row(*_cells(outcome))
    return table


def _cells(outcome: Outcome) -> list[Text]:
    plan, gain = outcome.plan, outcome.without / outcome.with_index
    mark = ("✓ ", "green") if outcome.equal else ("DIFFERS ", "bold red")
    return [
        Text.assemble(mark, (outcome.question.text, "bold")),
        Text(plan.strategy, "green"),
        Text(f"{outcome.rows:,}"),
        Text(percent(outcome.blocks_read, plan.blocks_total)),
        Text(seconds(outcome.with_index)),
        Text(seconds(outcome.without)),
        Text(f"{gain:.1f}", "bold green" if gain >= 1 else "bold red"),
    ]


def _show_offsets(console: Console, spark: SparkSession, outcome: Outcome) -> None:
    """Write a result file for readers of Hive's compact indexes, and show its first lines."""
    path = WAREHOUSE / "anchorage.offsets"
    hive_bitmap.write_offsets(spark, outcome.question.table, outcome.question.predicate, str(path))
    lines = path.read_text().splitlines()
    console.print(
        f"[green]✓[/] result file for readers of Hive's compact indexes, with the offsets of {len(lines)} files: {path}"
    )
    for line in lines[:2]:
        visible = line.rpartition("/")[2].replace("\x01", " ^A ").replace("\x02", " ^B ")
        console.print(Text(f"  …/{visible}", "dim"), overflow="ellipsis", no_wrap=True)


def _show_map(console: Console, outcome: Outcome) -> None:
    console.rule(outcome.question.text)
    text = to_text(outcome.plan, width=console.width, color=console.is_terminal)
    console.print(Text.from_ansi(text) if console.is_terminal else Text(text))
    page = WAREHOUSE / "anchorage.html"
    page.write_text(to_html(outcome.plan), encoding="utf-8")
    console.print(f"\n[green]✓[/] the same as an HTML page, with every block: {page.absolute().as_uri()}")


def _advise(console: Console, spark: SparkSession) -> None:
    """Name the index that these queries would have gained most from, if there is one, and those that none has used."""
    console.rule("advice on these queries")
    with console.status("[dim]estimating indexes"):
        advice = hive_bitmap.advise(spark, limit=1)
    console.print(Text(str(advice)))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HiveBitmapError as e:
        sys.exit(f"hive_bitmap: {e}")
