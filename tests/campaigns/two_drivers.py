"""A driver at a metastore that it shares: it makes a table whose index follows it, inserts into it, or looks at it.

While it inserts, for as long as it is told, it counts by the index and by Spark alone. It prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

import hive_bitmap
from tests.asking import OFF, under

COUNT = "SELECT count(*) FROM both WHERE k = 3"
PARTITIONS = 3


def session(conf: Mapping[str, str], name: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName(name).enableHiveSupport()
    for setting, value in conf.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    hive_bitmap.enable(spark)
    return spark


def make(spark: SparkSession, interval: str) -> dict[str, Any]:
    spark.sql("CREATE TABLE both (k int, name string) PARTITIONED BY (p int) STORED AS TEXTFILE")
    spark.sql("INSERT INTO both SELECT CAST(id % 7 AS int), 'first', CAST(id % 3 AS int) FROM range(300)")
    hive_bitmap.build(spark, "both", ["k"], auto_refresh=True, refresh_interval=interval)
    return look(spark)


def look(spark: SparkSession) -> dict[str, Any]:
    [status] = hive_bitmap.show(spark, "both")
    [verified] = hive_bitmap.verify(spark, "both")
    behind = status.unindexed + status.stale + status.gone
    return {"behind": behind, "problems": len(verified.problems), "rows": spark.sql(COUNT).collect()[0][0]}


def insert(spark: SparkSession, seconds: float, first: int) -> dict[str, Any]:
    """Insert into partitions of its own. Two of Spark's own writers delete each other's files; Hive's do not."""

    def plain() -> int:
        with under(spark, OFF):
            spark.sql("REFRESH TABLE both")
            return int(spark.sql(COUNT).collect()[0][0])

    end, inserted, wrong = time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        spark.sql(f"INSERT INTO both PARTITION (p = {first + inserted % PARTITIONS}) VALUES (3, 'new')")
        inserted += 1
        before, found, after = plain(), int(spark.sql(COUNT).collect()[0][0]), plain()
        if not before <= found <= after:  # rows are only added
            wrong.append((before, found, after))
    ended = time.monotonic()
    waited = hive_bitmap.refreshed(spark, 120)
    return {"inserted": inserted, "wrong": wrong, "waited": waited, "behind": time.monotonic() - ended}


def main() -> None:
    conf, act, value = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    spark = session(conf, act)
    match act:
        case "make":
            done = make(spark, value)
        case "insert":
            seconds, first = value.split(",")
            done = insert(spark, float(seconds), int(first))
        case _:
            done = look(spark)
    sys.stdout.write(json.dumps(done) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
