"""Indexes of Delta tables: statements, what queries gain, and what is left to Delta."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
COLUMNS = "id BIGINT, k INT, s STRING, p STRING"
ROWS = ("id", "CAST(id % 500 AS INT) AS k", "md5(CAST(id AS STRING)) AS s", "CONCAT('p', id % 2) AS p")
SELECTS = (
    "SELECT * FROM t WHERE k = 7",
    "SELECT id, s FROM t WHERE k IN (7, 8) AND id > 100",
    "SELECT s FROM t WHERE k = 123456",
    "SELECT s FROM t WHERE k = 7 AND p = 'p1'",
    "SELECT p FROM t WHERE k IS NULL OR k = 499",
)
COUNTS = (
    "SELECT count(*) FROM t WHERE k = 7",
    "SELECT k, count(*), min(k) FROM t WHERE k < 9 GROUP BY k",
    "SELECT count(DISTINCT k), max(k) FROM t WHERE k <> 3",
)


def make(spark: SparkSession, *, files: int = 4, by: str = "", **properties: str) -> None:
    """Table t of some files with an index on k."""
    said = ", ".join(f"'delta.{name}'='{value}'" for name, value in properties.items())
    spark.sql(
        f"CREATE TABLE t ({COLUMNS}) USING delta {f'PARTITIONED BY ({by})' if by else ''}"
        f"{f' TBLPROPERTIES ({said})' if said else ''}"
    )
    append(spark, files=files)
    with asking.indexed(spark):
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")


def append(spark: SparkSession, *, first: int = 0, files: int = 1) -> None:
    for file in range(first, first + files):
        rows = spark.range(file * 10_000, file * 10_000 + 10_000, 1, 1).selectExpr(*ROWS)
        rows.write.insertInto("t")


def require_narrowed(spark: SparkSession) -> None:
    for query in SELECTS:
        asking.require_alike(spark, query, "blocks", "files")
    assert asking.used(spark, SELECTS[0], "blocks") == asking.used(spark, SELECTS[1], "files") == [("t", "narrowed")]


def status(spark: SparkSession) -> tuple[int, int, int]:
    """Fresh, unindexed and gone files of the index."""
    (found,) = hive_bitmap.show(spark, "t")
    assert not found.problem
    return found.fresh, found.unindexed + found.stale, found.gone


@pytest.mark.parametrize("by", ["", "p"])
def test_files_and_blocks_are_left_out(spark: SparkSession, database: str, by: str) -> None:
    make(spark, by=by)
    require_narrowed(spark)
    assert [one.ok for one in hive_bitmap.verify(spark, "t")] == [True]


DVS = {"enableDeletionVectors": "true"}
MAPPED = {"columnMapping.mode": "name", "minReaderVersion": "2", "minWriterVersion": "5"}


@pytest.mark.parametrize("properties", [{}, DVS, DVS | MAPPED], ids=["plain", "vectors", "vectors and names"])
def test_deleted_rows_stay_deleted(spark: SparkSession, database: str, properties: dict[str, str]) -> None:
    """Of a file with a deletion vector rows are left out by Delta's reader, and Spark counts the others."""
    make(spark, files=2, **properties)
    spark.sql("DELETE FROM t WHERE id IN (7, 507, 10007) OR id BETWEEN 2000 AND 2100")
    spark.sql("UPDATE t SET k = 7 WHERE id = 8")
    require_narrowed(spark)
    with asking.indexed(spark):
        spark.sql("ALTER INDEX ik ON t REBUILD")
    assert status(spark)[1:] == (0, 0)
    require_narrowed(spark)
    for query in COUNTS:
        asking.require_alike(spark, query, "index only")
    assert asking.used(spark, COUNTS[1], "index only") == [("t", "answered")]
    assert [one.ok for one in hive_bitmap.verify(spark, "t")] == [True]
