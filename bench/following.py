"""`python -m bench.following`: what it costs that an index follows its table, and how far it is behind.

The same INSERTs go to a table without an index, to one whose index does not follow it, to one whose index does, and to
one that is rebuilt after each. CPU seconds are those of the driver's JVM and its Python processes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench.memory import cpu_seconds, family
from hive_bitmap.spark.session import session

WAYS = ("no index", "auto_refresh=false", "auto_refresh=true", "then REBUILD")
FIRST_ROWS = 1_000_000  # of each table before the INSERTs
BURST, BURST_SECONDS = 100, 60.0


@click.command()
@click.option("--rows", default="1,1e5,1e6", show_default=True, help="Rows of the INSERTs, by commas.")
@click.option("--repeats", default=5, show_default=True, help="INSERTs of each size, of which the median is told.")
def main(rows: str, repeats: int) -> None:
    """Insert into four tables in turn, then a hundred times in a minute."""
    out = Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder) / "warehouse", app_name="bench", master="local[2]")
        for way in WAYS:
            _make(spark, _name(way), way)
        out.print(_inserts(spark, [int(float(one)) for one in rows.split(",")], repeats))
        out.print(_burst(spark))
        spark.stop()


def _name(way: str) -> str:
    return f"t{WAYS.index(way)}"


def _make(spark: SparkSession, name: str, way: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, v BIGINT) USING parquet")
    _insert(spark, name, FIRST_ROWS)
    if way != "no index":
        hive_bitmap.build(spark, name, ["k"], auto_refresh=way == "auto_refresh=true", refresh_interval="1 second")


def _insert(spark: SparkSession, name: str, rows: int) -> None:
    spark.sql(f"INSERT INTO {name} SELECT CAST(id % 1000 AS INT), id FROM range(0, {rows}, 1, 1)")


def _inserts(spark: SparkSession, sizes: list[int], repeats: int) -> Table:
    table = Table("rows", "table", "INSERT s", "until indexed s", "CPU s", title=f"medians of {repeats}, local[2]")
    for rows in sizes:
        found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
        for turn in range(repeats + 1):
            for way in WAYS:
                times = _timed(spark, way, rows)
                if turn:  # the first turn warms
                    found[way].append(times)
        for way, several in found.items():
            inserted, indexed, cpu = (median(one[figure] for one in several) for figure in range(3))
            behind = "-" if way in WAYS[:2] else f"{indexed:.2f}"
            table.add_row(f"{rows:,}", way, f"{inserted:.3f}", behind, f"{cpu:.2f}")
    return table


def _timed(spark: SparkSession, way: str, rows: int) -> tuple[float, float, float]:
    """Return the seconds of an INSERT, the seconds until its index knows it, and the CPU seconds of both."""
    hive_bitmap.refreshed(spark)
    time.sleep(1.0)  # the interval, so that a refresh is due at once
    cpu, started = cpu_seconds(family()), time.monotonic()
    _insert(spark, _name(way), rows)
    inserted = time.monotonic() - started
    if way == "then REBUILD":
        hive_bitmap.rebuild(spark, _name(way))
    hive_bitmap.refreshed(spark)
    return inserted, time.monotonic() - started, cpu_seconds(family()) - cpu


def _burst(spark: SparkSession) -> Table:
    """INSERT a row a hundred times in a minute into a table whose index follows it every 30 seconds."""
    spark.sql("CREATE TABLE burst (k INT, v BIGINT) USING parquet")
    _insert(spark, "burst", 1000)
    hive_bitmap.build(spark, "burst", ["k"], auto_refresh=True)
    built: set[float] = set()

    def look() -> int:
        [status] = hive_bitmap.show(spark, "burst")
        if status.last_refresh is not None:
            built.add(status.last_refresh.author.started)
        return status.unindexed

    started, times, most = time.monotonic(), [], 0
    for number in range(BURST):
        begun = time.monotonic()
        _insert(spark, "burst", 1)
        times.append(time.monotonic() - begun)
        most = max(most, look())
        time.sleep(max(0.0, started + (number + 1) * BURST_SECONDS / BURST - time.monotonic()))
    took = time.monotonic() - started
    during = len(built)
    hive_bitmap.refreshed(spark)
    left = look()
    table = Table("INSERTs", "in s", "INSERT s, median", "refreshes meanwhile", "after it", "most unindexed", "left")
    figures = (BURST, f"{took:.0f}", f"{median(times):.3f}", during, len(built) - during, most, left)
    table.add_row(*map(str, figures))
    return table


if __name__ == "__main__":
    main()
