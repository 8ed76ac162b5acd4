"""A program for a cluster, which `test_cluster` submits: what it finds is printed as lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.errors import HiveBitmapError

ROWS = 20_000
HALTED = 6.0  # seconds in which the driver has sent its tasks
T = TypeVar("T")


def main(given: dict[str, Any]) -> None:
    spark = hive_bitmap.session(given["folder"] + "/warehouse", master=given["master"], conf=given["conf"])
    tell("executors", len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()))  # type: ignore[union-attr]
    whole = spark.sparkContext.pythonExec
    for name, home in given["homes"].items():
        spark.sql(f"CREATE DATABASE {name} LOCATION '{home}/{name}'")
        spark.catalog.setCurrentDatabase(name)
        spark.sql("CREATE TABLE t (k int, id bigint) STORED AS PARQUET")
        rows = f"SELECT CAST(id % 500 AS int), id FROM range(0, {ROWS}, 1, 4)"
        spark.sql(f"INSERT INTO t {rows}")
        spark.sparkContext.pythonExec = given["lacking"]
        try:
            hive_bitmap.build(spark, "t", ["k"])
        except HiveBitmapError as e:
            tell(f"{name}: lacking, build", str(e))
        spark.sparkContext.pythonExec = whole
        [report] = hive_bitmap.build(spark, "t", ["k"])
        tell(f"{name}: build", report.base_rows)
        tell(f"{name}: count", hive_bitmap.count(spark, "t", "k = 7"))
        tell(f"{name}: rows", hive_bitmap.scan(spark, "t", "k = 7", strategy="rows").count())
        spark.sql(f"INSERT INTO t {rows}")
        hive_bitmap.rebuild(spark, "t")
        tell(f"{name}: again", hive_bitmap.count(spark, "t", "k = 7"))
        if name == given["builds"]:
            [report] = killing(spark, lambda: hive_bitmap.rebuild(spark, "t", full=True))
            tell("killed in a build", report.base_rows)
            tell("after that", hive_bitmap.count(spark, "t", "k = 7"))
        else:
            fetched = hive_bitmap.scan(spark, "t", "k < 300", strategy="rows")
            tell("killed in a fetch", killing(spark, fetched.count))
    spark.sparkContext.pythonExec = given["lacking"]
    archive = Path(given["folder"]) / "sent.zip"
    package = Path(hive_bitmap.__file__).parent
    with zipfile.ZipFile(archive, "w") as packed:
        for path in package.rglob("*"):
            packed.write(path, path.relative_to(package.parent))
    spark.sparkContext.addPyFile(str(archive))
    hive_bitmap.rebuild(spark, "t", full=True)
    tell("sent: count", hive_bitmap.count(spark, "t", "k = 7"))
    spark.stop()


def killing(spark: SparkSession, do: Callable[[], T]) -> T:
    """What `do` returns, one of the executors of this program being killed while it has a task of it.

    It is halted before, so that the task that it gets cannot end.
    """
    victim = executors(spark)[0]
    os.kill(victim, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(do)
        done, _ = wait([waits], timeout=HALTED)
        os.kill(victim, signal.SIGKILL)
        if done:
            raise RuntimeError("the executor that was halted had no task")
        return waits.result()


def executors(spark: SparkSession) -> list[int]:
    """The processes of this program's executors."""
    shown = subprocess.run(["ps", "-axwwo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    words = ("CoarseGrainedExecutorBackend", spark.sparkContext.applicationId)
    return [int(line.split()[0]) for line in shown.splitlines() if all(word in line for word in words)]


def tell(name: str, value: Any) -> None:
    sys.stdout.write(json.dumps([name, value]) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
