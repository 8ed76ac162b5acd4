"""What cannot be had of a Delta table is refused with a sentence, and left to Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests import asking
from tests.lake.test_delta import make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake


def test_indexes_that_cannot_be(spark: SparkSession, database: str) -> None:
    make(spark, files=1, by="p")
    spark.sql("CREATE TABLE c (k INT, f CHAR(3), a STRUCT<b: INT>) USING delta")
    spark.sql("CREATE TABLE v (k INT, x VARIANT) USING delta")
    refused = {
        "partitions delta table": lambda: hive_bitmap.build(spark, "t", ["p"]),
        "WHERE is not supported": lambda: hive_bitmap.build(spark, "t", ["id"], where="p = 'p1'"),
        "IN TABLE is not supported": lambda: hive_bitmap.build(spark, "t", ["id"], index_table="x"),
        "is char": lambda: hive_bitmap.build(spark, "c", ["f"]),
        "a is struct|'a' of table .* is struct": lambda: hive_bitmap.build(spark, "c", ["a"]),
        "has the table feature variantType": lambda: hive_bitmap.build(spark, "v", ["k"]),
        "readers of result files do not support": lambda: hive_bitmap.write_offsets(spark, "t", "k = 7", "/tmp/x"),
    }
    for why, act in refused.items():
        with pytest.raises(Unsupported, match=why):
            act()


def test_what_is_left_to_spark(spark: SparkSession, database: str) -> None:
    make(spark, files=1, enableDeletionVectors="true")
    left = (
        "SELECT id FROM t WHERE k = 7 AND input_file_name() <> ''",
        "SELECT id, _metadata.file_name FROM t WHERE k = 7",
        "SELECT count(*) FROM t WHERE id < (SELECT max(id) FROM t WHERE k = 7)",
    )
    for query in left:
        asking.require_alike(spark, query, "blocks")
        assert not asking.used(spark, query, "blocks")
    asking.require_alike(spark, "SELECT * FROM t WHERE k = 7", "rows")
    with asking.under(spark, {"spark.databricks.delta.stats.skipping": "false"}):
        asking.require_alike(spark, "SELECT * FROM t WHERE k = 7", "blocks")
        assert not asking.used(spark, "SELECT * FROM t WHERE k = 7", "blocks")
    with asking.under(spark, {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"}):
        spark.sql("DELETE FROM t WHERE id = 507")
        asking.require_alike(spark, "SELECT * FROM t WHERE k IN (7, 8)", "blocks")
        asking.require_alike(spark, "SELECT * FROM t WHERE k = 123456", "files")
    with asking.indexed(spark, "blocks"):  # what Delta's own statements read is Delta's
        spark.sql("DELETE FROM t WHERE k = 7 AND id > 600")
        spark.sql("INSERT INTO t SELECT id, 9, s, p FROM t WHERE k = 8 AND id < 600")
        spark.sql("MERGE INTO t USING (SELECT 8 AS id) u ON t.id = u.id AND t.k = 8 WHEN MATCHED THEN DELETE")
    asking.require_alike(spark, "SELECT * FROM t WHERE k IN (7, 8, 9)", "blocks")


def test_a_log_that_is_broken(spark: SparkSession, database: str) -> None:
    """The index is dropped all the same."""
    make(spark, files=1)
    (row,) = spark.sql("DESCRIBE DETAIL t").select("location").collect()
    shutil.rmtree(Path(urlsplit(row.location).path) / "_delta_log")
    spark.sql("CLEAR CACHE")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    with pytest.raises(Unsupported, match=r"is delta, and its log cannot be read: |t is delta, and does not say"):
        hive_bitmap.rebuild(spark, "t")
    with asking.indexed(spark):
        spark.sql("DROP INDEX ik ON t")
    assert [name for _, name, _ in spark.sql("SHOW TABLES").collect()] == ["t"]
