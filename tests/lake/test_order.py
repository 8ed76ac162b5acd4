"""The order of rows of lake tables: as their own scans deliver them, where these have an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests import asking
from tests.lake import test_iceberg
from tests.lake.test_delta import COLUMNS, ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
SIZES = (3000, 11000, 500, 8000)
SETTINGS = {"spark.sql.files.maxPartitionBytes": "200000", "spark.sql.files.openCostInBytes": "1000"}
QUERIES = ("SELECT * FROM {t} WHERE k = 7", "SELECT id FROM {t} WHERE k < 4 LIMIT 60")
PLACED = "SELECT id, rand(3) FROM {t} WHERE k = 7"


def require_ordered(spark: SparkSession, table: str) -> None:
    for query in (*QUERIES, PLACED):
        asking.require_alike(spark, query.format(t=table), "blocks", "files", ordered=True)
    for way in ("blocks", "files"):
        assert asking.used(spark, QUERIES[0].format(t=table), way) == [("t", "narrowed")]
        assert not asking.used(spark, PLACED.format(t=table), way)


def test_rows_of_delta(spark: SparkSession, database: str) -> None:
    spark.sql(f"CREATE TABLE t ({COLUMNS}) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for number, rows in enumerate(SIZES):
        first = number * 100_000
        spark.range(first, first + rows, 1, 1).selectExpr(*ROWS).write.format("delta").mode("append").saveAsTable("t")
    with asking.indexed(spark):
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
    with asking.under(spark, SETTINGS):
        require_ordered(spark, "t")
        spark.sql("DELETE FROM t WHERE id % 11 = 3")
        require_ordered(spark, "t")


def test_rows_of_iceberg(iceberg: SparkSession, iceberg_table: str) -> None:
    """Of one manifest: Iceberg reads several at once, and gives their files in any order."""
    test_iceberg.create(iceberg, iceberg_table)
    for number, rows in enumerate(SIZES):
        first = number * 100_000
        iceberg.range(first, first + rows, 1, 1).selectExpr(*ROWS).writeTo(iceberg_table).append()
    catalog, name = iceberg_table.split(".", 1)
    iceberg.sql(f"CALL {catalog}.system.rewrite_manifests('{name}')")
    with asking.indexed(iceberg):
        iceberg.sql(f"CREATE INDEX ik ON TABLE {iceberg_table} (k) AS 'BITMAP'")
    (found,) = hive_bitmap.show(iceberg, iceberg_table)
    assert found.fresh == len(SIZES)
    iceberg.sql(f"ALTER TABLE {iceberg_table} SET TBLPROPERTIES ('read.split.target-size' = '200000')")
    with asking.under(iceberg, {"spark.sql.iceberg.split-size": "200000"}):
        require_ordered(iceberg, iceberg_table)
