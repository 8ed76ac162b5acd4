"""A script as users submit it (`spark-submit`), which `test_cluster` does: it uses an index, and rebuilds it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import hive_bitmap
from tests.stores.job import executors_of, tell

IDLE = 60.0  # seconds in which executors that have nothing to do are given back


def main(table: str, allocation: str) -> None:
    spark = hive_bitmap.session(None)
    if allocation == "dynamic":
        tell("at first", executors_of(spark))
    tell("found in", spark.sparkContext.parallelize([0], 1).mapPartitions(where_it_is).collect()[0])
    if allocation == "dynamic":
        started = time.monotonic()
        while executors_of(spark) and time.monotonic() < started + IDLE:
            time.sleep(0.2)
        tell("idle", executors_of(spark))
    spark.conf.set("hive_bitmap.driver_read_bytes", "0")  # executors are to read them
    fetched = hive_bitmap.scan(spark, table, "k = 7", strategy="rows")
    tell("rows", len(fetched.collect()))
    [report] = hive_bitmap.rebuild(spark, table, full=True)
    tell("build", report.base_rows)
    tell("count", spark.sql(f"SELECT count(*) FROM {table} WHERE k = 7").collect()[0][0])
    tell("plan", hive_bitmap.explain(f"SELECT count(*) FROM {table} WHERE k = 7", spark).relations[0].action)
    spark.stop()


def where_it_is(rows: Iterator[int]) -> Iterator[str]:
    """In a task: the file from which the package is loaded."""
    from hive_bitmap.spark import packages

    yield packages.__file__


if __name__ == "__main__":
    main(*sys.argv[1:])
