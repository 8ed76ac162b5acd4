"""`python -m bench.ids`: ways to find some of many unique ids, on one table.

The ids are texts of 32 hexadecimal digits in random order, so neither sorting nor statistics help to find them. The
table is written twice: as it is, and with a Parquet Bloom filter of the id. Then indexes of several keys over the id
are built, one after the other. Each is asked for one id, and for a thousand, by IN and by a join.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench import tables
from hive_bitmap.core.explaining.measures import seconds, size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "md5(CAST(id AS STRING)) AS id",
    "CAST(id % 1000 AS INT) AS shop",
    "timestamp_micros(1700000000000000 + id * 1000000) AS at",
    "CAST(id % 99991 AS DECIMAL(12, 2)) AS amount",
    "concat('order ', sha(CAST(id AS STRING))) AS note",
)
KEYS = (
    "id",
    "xxhash64(id) AS h",
    "substring(id, 1, 5) AS beginning",
)
WANTED = 1000  # ids that are looked for together
WIDTH = 120  # of the tables in a file


@dataclass(frozen=True)
class Asked:
    """What a question took.

    `plan` is the strategy with the row groups that it reads, of all. `rows` are those that Spark's readers return; 0 if
    they do not count them.
    """

    seconds: float
    plan: str
    rows: int


@dataclass(frozen=True)
class Way:
    """A way to find ids: seconds to make it, bytes beside the table, and what each question took."""

    seconds: float
    bytes: int
    asked: Mapping[str, Asked]


@click.command()
@click.option("--rows", default="3e6", show_default=True, help="Rows of the table, e.g. 10e6.")
@click.option("--files", default=50, show_default=True, help="Files of the table.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Timed turns of each way.")
@click.option("--cores", default=os.cpu_count() or 1, show_default=True, type=click.IntRange(1), help="Cores to use.")
@click.option("--block-mb", default=4, show_default=True, type=click.IntRange(1), help="Size of a row group.")
def main(rows: str, files: int, repeats: int, cores: int, block_mb: int) -> None:
    """Measure how one id and a thousand ids are found."""
    count = int(float(rows))
    with TemporaryDirectory() as folder:
        spark = hive_bitmap.session(
            Path(folder) / "warehouse",
            app_name="bench of ids",
            master=f"local[{cores}]",
            conf={"spark.driver.memory": "3g", "spark.sql.session.timeZone": "UTC"},
        )
        ways = dict(_measured(spark, count, files, repeats, block_mb))
        spark.stop()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print(f"{count:,} unique ids in {files} files, {cores} cores, medians of {repeats} turns, warm")
    tables.show(console, _table(ways, count))


def _measured(spark: SparkSession, rows: int, files: int, repeats: int, block_mb: int) -> Iterator[tuple[str, Way]]:
    block = {"parquet.block.size": str(block_mb << 20)}
    bloom = {"parquet.bloom.filter.enabled#id": "true", "parquet.bloom.filter.expected.ndv#id": str(rows // files)}
    plain = _write(spark, rows, files, "orders", block)
    blooming = _write(spark, rows, files, "blooming", block | bloom)
    spark.range(WANTED).selectExpr(f"md5(CAST(id * {rows // WANTED} + 7 AS STRING)) AS id").write.saveAsTable("wanted")
    spark.conf.set("hive_bitmap.enabled", "false")
    yield "statistics", Way(plain[0], 0, _asked(spark, "orders", repeats))
    yield "Bloom filter", Way(blooming[0], blooming[1] - plain[1], _asked(spark, "blooming", repeats))
    spark.conf.set("hive_bitmap.enabled", "true")
    for key in KEYS:
        started = time.monotonic()
        (report,) = hive_bitmap.build(spark, "orders", [key])
        took = time.monotonic() - started
        yield key.partition(" AS ")[0], Way(took, report.index_bytes, _asked(spark, "orders", repeats))
        hive_bitmap.drop(spark, "orders", report.definition.name)


def _write(spark: SparkSession, rows: int, files: int, table: str, options: Mapping[str, str]) -> tuple[float, int]:
    """Write the table; return seconds and bytes."""
    started = time.monotonic()
    spark.range(0, rows, 1, files).selectExpr(*COLUMNS).write.options(**options).saveAsTable(table)
    took = time.monotonic() - started
    place = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()[0]["data_type"]
    return took, sum(path.stat().st_size for path in Path(place.removeprefix("file:")).glob("*.parquet"))


def _asked(spark: SparkSession, table: str, repeats: int) -> dict[str, Asked]:
    wanted = [row.id for row in spark.table("wanted").collect()]
    several = ", ".join(f"'{id}'" for id in wanted)
    questions = {
        "one id": (f"SELECT * FROM {table} WHERE id = '{wanted[3]}'", 1),
        "1,000 ids, IN": (f"SELECT * FROM {table} WHERE id IN ({several})", WANTED),
        "1,000 ids, join": (f"SELECT o.* FROM {table} o JOIN wanted w ON o.id = w.id", WANTED),
    }
    asked = {}
    for about, (query, found) in questions.items():
        times = []
        for turn in range(repeats + 1):
            started = time.monotonic()
            frame = spark.sql(query)
            answer = frame.toArrow()
            if turn:  # the first turn warms
                times.append(time.monotonic() - started)
            assert answer.num_rows == found, f"{about}: {answer.num_rows} rows"
        asked[about] = Asked(median(times), _plan(query), _rows_read(frame))
    return asked


def _plan(query: str) -> str:
    """Return by explain how the large table is read; "" if Spark scans it."""
    for relation in hive_bitmap.explain(query).relations:
        if relation.table.endswith("orders") and relation.blocks_total is not None and relation.strategy:
            return f"{relation.strategy} {relation.blocks_selected:,} of {relation.blocks_total:,}"
    return ""


def _rows_read(frame: DataFrame) -> int:
    """Return how many rows the readers of the large table hand to Spark's filter, by their own metrics."""
    execution = frame._jdf.queryExecution().executedPlan()
    leaves = (execution.executedPlan() if "Adaptive" in execution.nodeName() else execution).collectLeaves()
    counted = [leaves.apply(i).metrics().get("numOutputRows") for i in range(leaves.size())]
    return max((one.get().value() for one in counted if one.isDefined()), default=0)


def _table(ways: Mapping[str, Way], rows: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Keys for ids", title_justify="left")
    questions = list(next(iter(ways.values())).asked)
    for heading in ("key", "made in", "bytes", "bytes a row", *questions):
        table.add_column(heading, justify="left" if heading == "key" else "right")
    for key, way in ways.items():
        asked = (_asked_text(each) for each in way.asked.values())
        table.add_row(key, seconds(way.seconds), size(way.bytes), f"{way.bytes / rows:.1f}", *asked)
    return table


def _asked_text(asked: Asked) -> str:
    rows = f", {asked.rows:,} rows" if asked.rows else ""
    return f"{seconds(asked.seconds)}, {asked.plan or 'scan'}{rows}"


if __name__ == "__main__":
    main()
