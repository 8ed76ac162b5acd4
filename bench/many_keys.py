"""`python -m bench.many_keys`: numbers and first groups of a column with millions of values, beside plain Spark.

Each query is asked of both in turns, in one session. Before each turn of ours, what is in memory of the index is
forgotten, so its files are read and merged again; they may be in the cache of the system, as those of the table.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median

import click
from pyspark.sql import SparkSession

import hive_bitmap
from bench import memory
from hive_bitmap.core.index import lookup

FOLDER = Path("bench-warehouse") / "many_keys"
QUERIES = [
    "SELECT count(DISTINCT k) FROM many_keys",
    "SELECT k, count(*) AS n FROM many_keys GROUP BY k ORDER BY n DESC, k LIMIT 10",
    "SELECT DISTINCT k FROM many_keys LIMIT 10",
    "SELECT min(k), max(k) FROM many_keys WHERE c = 'c3'",
    "SELECT count(DISTINCT k) FROM many_keys WHERE c <> 'c3'",
]


@click.command()
@click.option("--rows", default=10_000_000, show_default=True, help="Rows of the table.")
@click.option("--keys", default=2_000_000, show_default=True, help="Values of the column.")
@click.option("--turns", default=3, show_default=True, help="Timed turns of each.")
@click.option("--cores", default=2, show_default=True, help="Cores to use.")
def main(rows: int, keys: int, turns: int, cores: int) -> None:
    """Print the median seconds and CPU seconds of each query, and the most memory of each process."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    spark = hive_bitmap.session(FOLDER, app_name="hive_bitmap bench", master=f"local[{cores}]")
    drawn = f"pmod(xxhash64(id % {rows * 2 // 5}), {keys}) AS k, concat('c', id % 7) AS c, id * 1.1 AS amount"
    spark.sql(f"CREATE TABLE many_keys USING parquet AS SELECT id, {drawn} FROM range(0, {rows}, 1, 10)")
    for column in ("k", "c"):
        hive_bitmap.build(spark, "many_keys", [column])
    hive_bitmap.enable(spark)
    for query in QUERIES:
        asked = [{setting: _asked(spark, query, setting) for setting in ("true", "false")} for _ in range(turns + 1)]
        timed = asked[1:]  # in the first turn, the JVM compiles what runs often
        ours, theirs = (
            [median(figures) for figures in zip(*(turn[setting] for turn in timed), strict=True)]
            for setting in ("true", "false")
        )
        click.echo(f"{theirs[0] / ours[0]:5.1f}x  {query}")
        for name, (wall, cpu) in (("ours", ours), ("Spark", theirs)):
            click.echo(f"        {name:6}{wall:8.2f} s {cpu:8.2f} s of CPU")
    for process, size in memory.peaks().items():
        click.echo(f"most memory of {process}: {size >> 20:,} MB")
    spark.stop()


def _asked(spark: SparkSession, query: str, enabled: str) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of a query, with the rule or without it."""
    spark.conf.set("hive_bitmap.enabled", enabled)
    lookup.clear_caches()
    cpu, started = memory.cpu_seconds(memory.family()), time.perf_counter()
    spark.sql(query).collect()
    seconds = time.perf_counter() - started
    return seconds, memory.cpu_seconds(memory.family()) - cpu


if __name__ == "__main__":
    main()
