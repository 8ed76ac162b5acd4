"""A program with a small heap that asks an indexed table of many distinct keys, by default settings, and prints JSON.

For each query it prints the seconds of plain Spark and of the rule's plan, and whether they answer the same. Answers
with a row for each key are compared in Spark, not in the driver.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import hive_bitmap
from tests.asking import OFF, under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4"}
FILES = 8
SMALL = (
    "SELECT count(DISTINCT u), count(DISTINCT t) FROM many",
    "SELECT max(n), count(*), sum(hash(u)) FROM (SELECT u, count(*) AS n FROM many GROUP BY u)",
    "SELECT sum(u), min(t), max(t) FROM many",
    "SELECT u, count(*) FROM many WHERE u BETWEEN 100 AND 200 GROUP BY u",
    "SELECT t, count(*) AS n FROM many GROUP BY t ORDER BY n DESC, t LIMIT 5",
    "SELECT j, count(*) FROM many GROUP BY j",
    "SELECT count(*) FROM many WHERE hash(u) % 1000 = 7",
    "SELECT count(*) FROM many WHERE t LIKE '%77'",
    "SELECT count(*) FROM many a JOIN many b ON a.u = b.id WHERE a.j = 3 AND b.j = 2",
    "SELECT id, j FROM many WHERE u = 77",
)
BY_KEY = (
    "SELECT u, count(*) AS n FROM many GROUP BY u",
    "SELECT DISTINCT t FROM many",
    "SELECT u, t, count(*) AS n FROM many GROUP BY u, t",
)


def main(folder: str, keys: int) -> None:
    spark = hive_bitmap.session(f"{folder}/warehouse", master="local[2]", conf=CONF)
    columns = f"id % {keys} AS u, concat('key ', lpad(id % {keys}, 9, '0')) AS t, CAST(id % 5 AS int) AS j"
    spark.sql(f"CREATE TABLE many USING parquet AS SELECT id, {columns} FROM range(0, {keys + keys // 10}, 1, {FILES})")
    started = time.monotonic()
    hive_bitmap.build(spark, "many", [["u"], ["t"], ["j"]])
    _say({"built": round(time.monotonic() - started, 1)})
    hive_bitmap.enable(spark)
    for query in SMALL:
        plain, wanted = _asked(spark, query, off=True)
        indexed, found = _asked(spark, query, off=False)
        _say({"query": query, "plain": plain, "indexed": indexed, "same": found == wanted})
    for query in BY_KEY:
        plain, _ = _written(spark, query, off=True)
        indexed, _ = _written(spark, query, off=False)
        differ = "SELECT count(*) FROM (SELECT * FROM {0} EXCEPT ALL SELECT * FROM {1})"
        same = all(
            spark.sql(differ.format(*pair)).first()[0] == 0
            for pair in (("off_on_0", "off_on_1"), ("off_on_1", "off_on_0"))
        )
        _say({"query": query, "plain": plain, "indexed": indexed, "same": same})
    spark.stop()


def _say(told: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _asked(spark: SparkSession, query: str, off: bool) -> tuple[float, list[str]]:
    with under(spark, OFF if off else {}):
        started = time.monotonic()
        rows = sorted(map(repr, spark.sql(query).collect()))
        return round(time.monotonic() - started, 2), rows


def _written(spark: SparkSession, query: str, off: bool) -> tuple[float, str]:
    """Ask for as many rows as there are keys, which stay in Spark: they are written to a table."""
    table = f"off_on_{0 if off else 1}"
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    with under(spark, OFF if off else {}):
        started = time.monotonic()
        spark.sql(f"CREATE TABLE {table} USING parquet AS {query}")
        return round(time.monotonic() - started, 2), table


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
