"""The table of these tests, and what holds once its index has followed it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

import hive_bitmap

SECONDS = 60.0  # a test that waits so long for refreshes has failed


def make(spark: SparkSession, format: str = "USING parquet", partitioned: bool = True, **options: Any) -> None:
    by = "PARTITIONED BY (p INT, q STRING)" if partitioned else ""
    columns = "k INT, v BIGINT" + ("" if partitioned else ", p INT, q STRING")
    clauses = f"{by} {format}" if "STORED" in format else f"{format} {by}"  # in the order of Spark's two grammars
    spark.sql(f"CREATE TABLE t ({columns}) {clauses}")
    spark.sql(
        "INSERT INTO t SELECT CAST(id % 7 AS INT), id, CAST(id % 3 AS INT), IF(id % 5 = 0, NULL, 'x y') FROM range(300)"
    )
    hive_bitmap.build(spark, "t", ["k"], **{"auto_refresh": True, "refresh_interval": "1 second", **options})


def require_followed(spark: SparkSession) -> None:
    """Wait until nothing is queued, then compare what the index knows with the files, and answers with a full scan."""
    assert hive_bitmap.refreshed(spark, SECONDS)
    [status] = hive_bitmap.show(spark, "t")
    assert (status.stale, status.unindexed, status.problem) == (0, 0, "")
    assert status.lag == 0
    counted = {row.k: row.n for row in spark.sql("SELECT k, count(*) AS n FROM t GROUP BY k").collect()}
    spark.conf.set("hive_bitmap.enabled", "false")
    try:
        plain = {row.k: row.n for row in spark.sql("SELECT k, count(*) AS n FROM t GROUP BY k").collect()}
    finally:
        spark.conf.unset("hive_bitmap.enabled")
    assert counted == plain
