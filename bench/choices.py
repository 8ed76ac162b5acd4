"""`python -m bench.choices`: an index beside what else makes queries read less, on one table.

The same rows four times: as they were loaded, sorted by `store`, with a Parquet Bloom filter of `store`, and as they
were loaded with our indexes. Spark writes all copies, with row groups of about the same size and with Parquet's
statistics and page indexes, which its reader uses. Who loses is printed like who wins. Beside the times, which other
load on the machine changes, stand the rows that are read, which it does not.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich import box
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench import data, tables
from bench.measure import Contender, Race, multiset, race
from bench.report import conditions
from hive_bitmap.core.explaining.measures import seconds, size

LOADED, SORTED, BLOOM, INDEXED = "as loaded", "sorted by store", "Bloom filter of store", "indexes"
WAYS = (LOADED, SORTED, BLOOM, INDEXED)
INDEXES = ("store", "age", "gender", "hour", "at")
ADDED = ("CAST(id DIV 3600 AS int) AS hour", "date_trunc('HOUR', ts) AS at")  # Spark writes timestamps as INT96
WIDTH = 120  # of the tables in a file


@dataclass(frozen=True)
class Question:
    """A condition, whether its rows are counted, and whether they are so many that none are brought here."""

    about: str
    where: str
    count: bool = False
    drained: bool = False


QUESTIONS = (
    Question("rows of a rare store", "store = 4999"),
    Question("rows of a rare age, another column", "age = 69"),
    Question("rows of three hours, which lie together", "hour BETWEEN 100 AND 102"),
    Question("the same, as timestamps", "at BETWEEN '2023-11-19 02:00:00' AND '2023-11-19 04:00:00'"),
    Question("half of the rows", "gender = 'F'", drained=True),
    Question("count of a rare store", "store = 4999", count=True),
    Question("count of half of the rows", "gender = 'F'", count=True),
)


@dataclass(frozen=True)
class Made:
    """What a way costs: seconds to make, and bytes on disk beside the table as it was loaded, or in place of it."""

    seconds: float
    bytes: int


@click.command()
@click.option("--rows", default="1e6", show_default=True, help="Rows of the table, e.g. 10e6.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Timed turns of each way.")
@click.option("--cores", default=os.cpu_count() or 1, show_default=True, type=click.IntRange(1), help="Cores to use.")
def main(rows: str, repeats: int, cores: int) -> None:
    """Measure a table as loaded, sorted, with a Bloom filter, and indexed, in turns."""
    with TemporaryDirectory() as folder:
        spark = hive_bitmap.session(
            Path(folder) / "warehouse",
            app_name="bench of choices",
            master=f"local[{cores}]",
            conf={"spark.driver.memory": "4g", "spark.sql.session.timeZone": "UTC"},
        )
        source = data.prepare(Path(folder) / "data", int(float(rows)), lambda _: None)
        data.register(spark, source.folder)
        found = conditions(spark, source, cores, repeats)
        made = _make(spark, source)
        asked = {question: _ask(spark, question, repeats) for question in QUESTIONS}
        read = {question: _rows_read(spark, question) for question in QUESTIONS if not question.count}
        spark.stop()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print(", ".join(f"{name} {number}" for name, number in found["versions"].items()))
    console.print(f"{source.rows:,} rows, {cores} of {found['cores']} cores, medians of {repeats} turns, warm")
    tables.show(console, _costs(made))
    tables.show(console, _times(asked))
    tables.show(console, _reads(read))
    if not all(len(set(one.answers.values())) == 1 for one in asked.values()):
        sys.exit("an answer differs from that of the table as it was loaded: a bug, and the times mean nothing")


def _make(spark: SparkSession, source: data.Data) -> dict[str, Made]:
    """Write the copies, and build the indexes of one of them."""
    block = {"parquet.block.size": str(max(1 << 20, source.size // source.blocks))}
    bloom = {"parquet.bloom.filter.enabled#store": "true", "parquet.bloom.filter.expected.ndv#store": str(data.STORES)}
    loaded = spark.table(data.TABLE).selectExpr(*data.SCHEMA.names, *ADDED)
    in_order = loaded.repartitionByRange(source.files, "store").sortWithinPartitions("store")
    made = {
        LOADED: _write(spark, loaded, _table(LOADED), block),
        SORTED: _write(spark, in_order, _table(SORTED), block),
        BLOOM: _write(spark, loaded, _table(BLOOM), block | bloom),
    }
    started = time.monotonic()
    built = hive_bitmap.build(spark, _table(INDEXED), list(INDEXES))
    took = time.monotonic() - started
    return {**made, INDEXED: Made(took, sum(report.index_bytes for report in built))}


def _table(way: str) -> str:
    """The table of a way: the indexes are of the one that is as it was loaded."""
    return {SORTED: "sorted", BLOOM: "bloom"}.get(way, "loaded")


def _write(spark: SparkSession, rows: DataFrame, table: str, options: Mapping[str, str]) -> Made:
    started = time.monotonic()
    rows.write.options(**options).saveAsTable(table)
    took = time.monotonic() - started
    files = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()[0]["data_type"]
    return Made(took, sum(path.stat().st_size for path in Path(files.removeprefix("file:")).glob("*.parquet")))


def _ask(spark: SparkSession, question: Question, repeats: int) -> Race:
    def contender(way: str) -> Contender:
        def run() -> Any:
            frame = spark.table(_table(way)).where(question.where)
            if question.count:
                return frame.count()
            if question.drained:
                frame.write.format("noop").mode("overwrite").save()
                return frame
            return frame.toArrow()

        return Contender(run, _enabling(spark, way == INDEXED))

    return race({way: contender(way) for way in WAYS}, repeats, _digest)


def _rows_read(spark: SparkSession, question: Question) -> dict[str, int]:
    """Return how many rows the readers hand to Spark's filter, by their own metrics."""
    found = {}
    for way in WAYS:
        _enabling(spark, way == INDEXED)()
        frame = spark.table(_table(way)).where(question.where)
        rows = len(frame.toArrow())
        leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
        counted = [leaves.apply(i).metrics().get("numOutputRows") for i in range(leaves.size())]
        # A read without a job of Spark, for an index, has no metric: it returns the rows that match.
        found[way] = sum(one.get().value() for one in counted) if all(one.isDefined() for one in counted) else rows
    return found


def _enabling(spark: SparkSession, indexes: bool) -> Callable[[], object]:
    return lambda: spark.conf.set("hive_bitmap.enabled", str(indexes).lower())


def _digest(answer: Any) -> Any:
    """What is equal for equal answers: a number of rows, and a sum of their hashes where rows are brought here."""
    if isinstance(answer, DataFrame):
        return answer.count()
    return multiset(answer) if isinstance(answer, pa.Table) else answer


def _costs(made: Mapping[str, Made]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="What it costs", title_justify="left")
    for heading in ("way", "made in", "bytes"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way, cost in made.items():
        beside = f"+ {size(cost.bytes)}" if way == INDEXED else size(cost.bytes)
        table.add_row(way, seconds(cost.seconds), beside)
    return table


def _times(asked: Mapping[Question, Race]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Seconds, and how many times as fast as loaded", title_justify="left")
    table.add_column("question")
    for way in WAYS:
        table.add_column(way, justify="right")
    for question, times in asked.items():
        plain = times.median(LOADED)
        others = (f"{seconds(times.median(way))}  {plain / times.median(way):.1f}" for way in WAYS[1:])
        table.add_row(question.about, seconds(plain), *others)
    return table


def _reads(read: Mapping[Question, Mapping[str, int]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Rows that are read, before Spark's filter", title_justify="left")
    table.add_column("question")
    for way in WAYS:
        table.add_column(way, justify="right")
    for question, rows in read.items():
        table.add_row(question.about, *(f"{rows[way]:,}" for way in WAYS))
    return table


if __name__ == "__main__":
    main()
