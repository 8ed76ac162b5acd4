"""Keys that are expressions, of Delta and Iceberg tables; the oracle is plain Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests import asking
from tests.lake import test_iceberg
from tests.lake.test_iceberg import IN_LAKE, of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
COLUMNS = "id BIGINT, ts TIMESTAMP, s STRING, n INT, p STRING"
ROWS = (
    "IF(id % 89 = 0, NULL, id * 7919) AS id",
    "IF(id % 13 = 0, NULL, timestamp_micros(1714514400000000 + id * 61000000)) AS ts",
    "IF(id % 11 = 0, NULL, md5(CAST(id AS STRING))) AS s",
    "CAST(id DIV 20 AS INT) AS n",
    "CONCAT('p', id % 2) AS p",
)
KEYS = ("date_trunc('HOUR', ts) AS hour", "xxhash64(id) AS h", "substring(s, 1, 2) AS prefix", "xxhash64(n) AS of_n")
COUNTED = (
    "SELECT date_trunc('HOUR', ts) AS hour, count(*) FROM t GROUP BY hour",
    "SELECT count(*) FROM t WHERE date_trunc('HOUR', ts) IN ('2024-05-01 07:00', '2024-05-02 08:00')",
    "SELECT count(*), count(DISTINCT substring(s, 1, 2)) FROM t WHERE ts >= '2024-05-01' AND ts < '2024-05-02'",
    "SELECT substring(s, 1, 2) AS e, count(*) FROM t WHERE s LIKE 'a%' GROUP BY e",
)
IMPLIED = (
    "SELECT * FROM t WHERE id = 7919 * 777",
    "SELECT p, ts FROM t WHERE id IN (7919 * 3, 7919 * 2001, 5)",
    "SELECT * FROM t WHERE ts BETWEEN '2024-05-03 10:20' AND '2024-05-03 10:50'",
)
OTHER = ("SELECT * FROM t WHERE s LIKE 'abc%' OR id = 7919", "SELECT count(*) FROM t WHERE NOT (id = 7919)")


def append(spark: SparkSession, table: str, file: int) -> None:
    """Append a file of 5,000 rows, of four days."""
    rows = spark.range(file * 5000, file * 5000 + 5000, 1, 1).selectExpr(*ROWS)
    rows.sortWithinPartitions("p", "id").writeTo(table).append()


def require_alike(spark: SparkSession, table: str, strategy: str) -> None:
    for query in COUNTED:
        asking.require_alike(spark, of(query, table), "index only")
    for query in (*IMPLIED, *OTHER):
        asking.require_alike(spark, of(query, table), strategy)


def require_used(spark: SparkSession, table: str) -> None:
    for query in COUNTED:
        assert asking.used(spark, of(query, table), "index only") == [("t", "answered")], query
    for query in IMPLIED:
        assert asking.used(spark, of(query, table), "blocks") == [("t", "narrowed")], query


def require_life(spark: SparkSession, table: str) -> None:
    """Build indexes, ask, append, refresh, delete rows, and ask again."""
    for file in (0, 1):
        append(spark, table, file)
    (hour, *_) = hive_bitmap.estimate(spark, table, KEYS, sample=1)
    assert hour.distinct_keys > 80 and hour.seconds > 0
    hive_bitmap.build(spark, table, KEYS)
    require_used(spark, table)
    append(spark, table, 2)
    require_alike(spark, table, "files")
    refreshed = hive_bitmap.refresh(spark, table)
    assert all(0 < report.files_read < report.base_files / 2 for report in refreshed)
    spark.sql(f"DELETE FROM {table} WHERE s LIKE '%0' OR id = 7919")
    require_alike(spark, table, "blocks")
    require_used(spark, table)
    assert all(verified.ok for verified in hive_bitmap.verify(spark, table))
    with pytest.raises(Unsupported, match="partition"):
        hive_bitmap.build(spark, table, ["substring(p, 1, 1) AS first"])


def require_widened(spark: SparkSession, table: str, version: str) -> None:
    """Widen a column of a key, whose hash is another one then, and ask the table and a version of before."""
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN n TYPE BIGINT")
    now, before = (f"SELECT * FROM {table}{at} WHERE n = 333" for at in ("", f" VERSION AS OF {version}"))
    asking.require_alike(spark, now, "blocks")
    assert not asking.used(spark, now, "blocks")
    assert asking.used(spark, before, "blocks")
    hive_bitmap.drop(spark, table, "of_n")
    hive_bitmap.build(spark, table, ["xxhash64(n) AS of_n"])
    for query, is_used in ((now, True), (before, False)):
        asking.require_alike(spark, query, "blocks")
        assert bool(asking.used(spark, query, "blocks")) == is_used, query


def test_delta(spark: SparkSession, database: str) -> None:
    spark.sql(
        f"CREATE TABLE t ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableDeletionVectors'='true', 'delta.columnMapping.mode'='name', 'delta.enableTypeWidening'='true')"
    )
    require_life(spark, "t")
    require_widened(spark, "t", "2")
    spark.sql("ALTER TABLE t ADD COLUMNS (more INT)")
    require_used(spark, "t")
    spark.sql("ALTER TABLE t RENAME COLUMN ts TO moment")
    verified = {each.definition.name: each.problems for each in hive_bitmap.verify(spark, "t")}
    assert "ts" in verified.pop("hour")[0] and not any(verified.values())
    spark.sql("ALTER TABLE t RENAME COLUMN more TO ts")
    query = "SELECT moment FROM t WHERE date_trunc('HOUR', moment) = '2024-05-01 07:00'"
    asking.require_alike(spark, query, "blocks", "")
    shown = {status.definition.name: status.problem for status in hive_bitmap.show(spark, "t")}
    assert "ts" in shown.pop("hour") and not any(shown.values())


@IN_LAKE
def test_iceberg_tables(iceberg: SparkSession, iceberg_table: str) -> None:
    kept = {name.replace(".", "_").replace("-", "__"): value for name, value in test_iceberg.KEEPING.items()}
    test_iceberg.create(iceberg, iceberg_table, COLUMNS, "p, days(ts)", **kept)
    require_life(iceberg, iceberg_table)
    snapshots = iceberg.sql(f"SELECT snapshot_id FROM {iceberg_table}.snapshots ORDER BY committed_at").collect()
    require_widened(iceberg, iceberg_table, snapshots[1][0])
    iceberg.sql(f"ALTER TABLE {iceberg_table} RENAME COLUMN s TO text")
    query = "SELECT id FROM t WHERE substring(text, 1, 2) = 'ab'"
    asking.require_alike(iceberg, of(query, iceberg_table), "blocks", "")
