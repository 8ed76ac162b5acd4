"""A program for a cluster, which `test_cluster` runs: what it finds is printed as lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.metastore import session_settings

FILES, ROWS, KEYS = 4, 5_000, 500  # of a table, of a file
PARTITIONS = 2  # each is a task of a build, however small it is: so both executors have one
HALTED = 6.0  # seconds in which the driver has sent its tasks
ATTEMPTS = 30
BEGUN = 120.0  # seconds in which both executors have registered: Spark waits for one only
T = TypeVar("T")


def main(given: dict[str, Any]) -> None:
    spark = hive_bitmap.session(given["folder"] + "/warehouse", master=given["master"], conf=given["conf"])
    tell("executors", begun(spark, given["executors"]))
    lacks_it(spark, given["homes"]["on_s3"], given["lacking"])
    for name, home in given["homes"].items():
        make(spark, name, home)
        [report] = hive_bitmap.build(spark, "t", ["k"])
        tell(f"{name}: build", report.base_rows)
        tell(f"{name}: count", hive_bitmap.count(spark, "t", "k = 7"))
        tell(f"{name}: rows", len(hive_bitmap.scan(spark, "t", "k = 7", strategy="rows").collect()))
        if name == "on_s3":
            add(f"{home}/{name}/t", FILES)
            [report] = killing(spark, lambda: hive_bitmap.rebuild(spark, "t", full=True))
            tell("killed in a build", report.base_rows)
            tell("after that", hive_bitmap.count(spark, "t", "k = 7"))
        else:
            fetched = hive_bitmap.scan(spark, "t", "k < 300", strategy="rows")
            tell("killed in a fetch", len(killing(spark, fetched.collect)))
    spark.stop()


def make(spark: SparkSession, name: str, home: str) -> None:
    """A database, current from now on, with a table in it: few rows, some in each partition."""
    spark.sql(f"CREATE DATABASE {name} LOCATION '{home}/{name}'")
    spark.catalog.setCurrentDatabase(name)
    spark.sql(
        "CREATE EXTERNAL TABLE t (k int, id bigint) PARTITIONED BY (p int) STORED AS PARQUET "
        f"LOCATION '{home}/{name}/t'"
    )
    spark.sql("ALTER TABLE t ADD " + " ".join(f"PARTITION (p = {number})" for number in range(PARTITIONS)))
    session_settings.use_stores(spark)
    add(f"{home}/{name}/t", 0)


def add(folder: str, first: int) -> None:
    """Files of a table, whose numbers begin with the first."""
    for number in range(first, first + FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        rows = {"k": pa.array([one % KEYS for one in ids], pa.int32()), "id": pa.array(ids, pa.int64())}
        with stores.open_output(f"{folder}/p={number % PARTITIONS}/{number}.parquet") as sink:
            pq.write_table(pa.table(rows), sink)


def lacks_it(spark: SparkSession, home: str, lacking: str) -> None:
    """What a build says where the Python of executors lacks the package."""
    whole, spark.sparkContext.pythonExec = spark.sparkContext.pythonExec, lacking
    make(spark, "lacking", home)
    try:
        hive_bitmap.build(spark, "t", ["k"])
    except HiveBitmapError as e:
        tell("lacking", str(e))
    spark.sparkContext.pythonExec = whole


def killing(spark: SparkSession, do: Callable[[], T]) -> T:
    """What `do` returns, one of the executors of this program being killed while it has a task of it.

    It is halted before, so that the task that it gets cannot end. Little work is a single task, which Spark gives to
    any executor: if it was another's, all of it is done once more.
    """
    victim = processes_of_executors(spark)[0]
    with ThreadPoolExecutor(1) as pool:
        for _ in range(ATTEMPTS):
            os.kill(victim, signal.SIGSTOP)
            waits = pool.submit(do)
            done, _ = wait([waits], timeout=HALTED)
            os.kill(victim, signal.SIGCONT if done else signal.SIGKILL)
            found = waits.result()
            if not done:
                return found
    raise RuntimeError("the executor that was halted had no task")


def processes_of_executors(spark: SparkSession) -> list[int]:
    shown = subprocess.run(["ps", "-axwwo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    words = ("CoarseGrainedExecutorBackend", spark.sparkContext.applicationId)
    return [int(line.split()[0]) for line in shown.splitlines() if all(word in line for word in words)]


def begun(spark: SparkSession, wanted: int) -> int:
    """How many executors there are, as soon as there are as many as are wanted."""
    until = time.monotonic() + BEGUN
    while executors_of(spark) < wanted and time.monotonic() < until:
        time.sleep(0.1)
    return executors_of(spark)


def executors_of(spark: SparkSession) -> int:
    """How many executors there are now, the driver aside."""
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1  # type: ignore[union-attr]


def tell(name: str, value: Any) -> None:
    sys.stdout.write(json.dumps([name, value]) + "\n")
    sys.stderr.write(f"{time.strftime('%X')} {name}\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
