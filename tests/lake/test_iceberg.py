"""Indexes of Iceberg tables: statements, what queries gain, and what is left to Iceberg."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests import asking
from tests.lake.test_delta import COLUMNS, COUNTS, ROWS, SELECTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
IN_LAKE = pytest.mark.parametrize("iceberg_table", ["lake"], indirect=True)
CATALOGS = pytest.mark.parametrize("iceberg_table", ["spark_catalog", "lake"], indirect=True)
SMALL_BLOCKS = {
    "write.parquet.row-group-size-bytes": "65536",
    "write.parquet.page-size-bytes": "8192",
    "write.parquet.row-group-check-min-record-count": "100",
    "write.parquet.row-group-check-max-record-count": "1000",
    "write.parquet.compression-codec": "uncompressed",
    "write.orc.stripe-size-bytes": "65536",
    "write.distribution-mode": "none",
}
KEEPING = {f"write.{statement}.mode": "merge-on-read" for statement in ("delete", "update", "merge")}


def create(spark: SparkSession, table: str, columns: str = COLUMNS, by: str = "", **properties: str) -> None:
    """An empty table; names of properties have _ in place of dots."""
    named = {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}
    pairs = ", ".join(f"'{name}'='{value}'" for name, value in {**SMALL_BLOCKS, **named}.items())
    partitioned = f"PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg {partitioned} TBLPROPERTIES ({pairs})")


def make(spark: SparkSession, table: str, *, files: int = 4, by: str = "", **properties: str) -> None:
    """A table of some files with an index on k, and of deletes that are kept beside the files."""
    kept = {name.replace(".", "_").replace("-", "__"): value for name, value in KEEPING.items()}
    create(spark, table, by=by, **{**kept, **properties})
    append(spark, table, files=files)
    with asking.indexed(spark):
        spark.sql(f"CREATE INDEX ik ON TABLE {table} (k) AS 'BITMAP'")


def append(spark: SparkSession, table: str, *, first: int = 0, files: int = 1) -> None:
    for file in range(first, first + files):
        rows = spark.range(file * 10_000, file * 10_000 + 10_000, 1, 1).selectExpr(*ROWS)
        rows.sortWithinPartitions("p", "id").writeTo(table).append()


def of(query: str, table: str) -> str:
    """A query of table t, put to this table."""
    return re.sub(r"\b(FROM|JOIN) t\b", rf"\1 {table}", query)


def require_narrowed(spark: SparkSession, table: str) -> None:
    for query in SELECTS:
        asking.require_alike(spark, of(query, table), "blocks", "files")
    used = [asking.used(spark, of(SELECTS[at], table), way) for at, way in enumerate(("blocks", "files"))]
    assert used == [[("t", "narrowed")]] * 2


def require_counted(spark: SparkSession, table: str) -> None:
    for query in COUNTS:
        asking.require_alike(spark, of(query, table), "index only")
    assert asking.used(spark, of(COUNTS[1], table), "index only") == [("t", "answered")]


def status(spark: SparkSession, table: str) -> tuple[int, int, int]:
    """Fresh, unindexed and gone files of the index."""
    (found,) = hive_bitmap.show(spark, table)
    assert not found.problem
    return found.fresh, found.unindexed + found.stale, found.gone


@CATALOGS
def test_files_and_blocks_are_left_out_and_counts_are_the_indexs(iceberg: SparkSession, iceberg_table: str) -> None:
    make(iceberg, iceberg_table)
    assert status(iceberg, iceberg_table) == (4, 0, 0)
    require_narrowed(iceberg, iceberg_table)
    require_counted(iceberg, iceberg_table)
    assert [one.ok for one in hive_bitmap.verify(iceberg, iceberg_table)] == [True]
    assert hive_bitmap.count(iceberg, iceberg_table, "k = 7") == 40
    assert hive_bitmap.scan(iceberg, iceberg_table, "k = 7").count() == 40
    assert hive_bitmap.estimate(iceberg, iceberg_table, ["k"])[0].index_bytes > 0
    assert [one.files for one in hive_bitmap.preview(iceberg, iceberg_table)] == [0]
    assert hive_bitmap.clean(iceberg, iceberg_table) == []
    with asking.indexed(iceberg):
        (shown,) = iceberg.sql(f"SHOW INDEX ON {iceberg_table}").collect()
        assert (shown.idx_name, shown.tab_name, shown.col_names) == ("ik", "t", "k")
        iceberg.sql(f"DROP INDEX ik ON {iceberg_table}")
    assert hive_bitmap.show(iceberg, iceberg_table) == []
    iceberg.sql(f"TRUNCATE TABLE {iceberg_table}")
    hive_bitmap.build(iceberg, iceberg_table, ["k"])
    for query in (*COUNTS, *SELECTS):
        asking.require_alike(iceberg, of(query, iceberg_table), "")


def test_row_groups_are_left_out_in_a_scan_of_icebergs(iceberg: SparkSession, iceberg_table: str) -> None:
    """The plan has Iceberg's own scan, of some ranges, and no more rows come out of it than these have."""
    make(iceberg, iceberg_table, files=2)
    plan = hive_bitmap.plan(iceberg, iceberg_table, "k = 777")
    assert plan.blocks_selected == 2 < (plan.blocks_total or 0)
    with asking.indexed(iceberg, "blocks"):
        frame = iceberg.sql(f"SELECT id FROM {iceberg_table} WHERE k = 777")
        frame.collect()
        executed = frame._jdf.queryExecution().executedPlan()
        assert "NarrowedScan blocks by the bitmap index" in executed.toString()
        assert "filters=k IS NOT NULL, k = 777" in executed.toString()
        (scan,) = [node for node in _nodes(executed) if node.nodeName().startswith("BatchScan")]
        assert 0 < scan.metrics().apply("numOutputRows").value() < 10_000


def _nodes(plan: object) -> list[object]:
    """The nodes of a physical plan, from top to bottom."""
    children = plan.children()  # type: ignore[attr-defined]
    below = [node for at in range(children.size()) for node in _nodes(children.apply(at))]
    return [plan, *below]


@pytest.mark.parametrize("version", ["2", "3"])
def test_deleted_rows_stay_deleted(iceberg: SparkSession, iceberg_table: str, version: str) -> None:
    """Position deletes and deletion vectors are Iceberg's reader's, and Spark counts the files that have some."""
    make(iceberg, iceberg_table, files=2, format__version=version)
    iceberg.sql(f"DELETE FROM {iceberg_table} WHERE id IN (7, 507, 10007) OR id BETWEEN 2000 AND 2100")
    iceberg.sql(f"UPDATE {iceberg_table} SET k = 7 WHERE id = 8")
    deletes = iceberg.sql(f"SELECT file_format, content FROM {iceberg_table}.delete_files").distinct().collect()
    assert [tuple(row) for row in deletes] == [("PUFFIN" if version == "3" else "PARQUET", 1)]
    for _ in range(2):
        require_narrowed(iceberg, iceberg_table)
        require_counted(iceberg, iceberg_table)
        with asking.indexed(iceberg):
            iceberg.sql(f"ALTER INDEX ik ON {iceberg_table} REBUILD")
        assert status(iceberg, iceberg_table)[1:] == (0, 0)
    assert [one.ok for one in hive_bitmap.verify(iceberg, iceberg_table)] == [True]


@IN_LAKE
def test_orc(iceberg: SparkSession, iceberg_table: str) -> None:
    """Stripes are left out, and columns are found by the ids in the files."""
    make(iceberg, iceberg_table, files=2, write_format_default="orc")
    require_narrowed(iceberg, iceberg_table)
    iceberg.sql(f"DELETE FROM {iceberg_table} WHERE id % 1000 = 7")
    iceberg.sql(f"ALTER TABLE {iceberg_table} RENAME COLUMN s TO z")
    iceberg.sql(f"ALTER TABLE {iceberg_table} ADD COLUMN s STRING FIRST")
    query = of("SELECT * FROM t WHERE k = 7", iceberg_table)
    asking.require_alike(iceberg, query, "blocks", "files")
    assert asking.used(iceberg, query, "blocks") == [("t", "narrowed")]
    require_counted(iceberg, iceberg_table)
    hive_bitmap.rebuild(iceberg, iceberg_table)
    assert status(iceberg, iceberg_table) == (2, 0, 0)


BY_PARTITIONS = (
    "SELECT p, count(*) FROM t WHERE k < 100 GROUP BY p",
    "SELECT p, d, b, k, count(*) FROM t WHERE k < 20 OR d IS NULL GROUP BY p, d, b, k",
    "SELECT d, count(DISTINCT k), min(k), sum(n) FROM t GROUP BY d",
    "SELECT count(*) FROM t WHERE p = 'a' AND k = 7",
    "SELECT k, count(*) FROM t WHERE p IS NULL AND n IN (0, 3) AND d > DATE '2023-12-31' GROUP BY k",
    "SELECT count(*) FROM t WHERE (upper(p) = 'A' OR k = 7) AND (n > 1 OR NOT b OR k = 8)",
    "SELECT count(p), min(p), max(d), count(DISTINCT n) FROM t WHERE k = 7",
)


@IN_LAKE
@pytest.mark.parametrize("version", ["1", "2"])
def test_identity_partitions_are_keys_and_conditions_of_counts(
    iceberg: SparkSession, iceberg_table: str, version: str
) -> None:
    """Of a file that was written under another partitioning nobody knows its partition: all is Spark's then."""
    create(
        iceberg,
        iceberg_table,
        "id BIGINT, k INT, p STRING, d DATE, b BOOLEAN, n INT",
        by="p, bucket(2, id), d, b, n",
        format__version=version,
        write_delete_mode="merge-on-read" if version == "2" else "copy-on-write",
        write_spark_fanout_enabled="true",
    )
    iceberg.range(0, 12_000, 1, 1).selectExpr(
        "id",
        "CAST(id % 500 AS INT) AS k",
        "IF(id % 3 = 0, NULL, IF(id % 3 = 1, 'a', 'A\\t=b/c')) AS p",
        "IF(id % 2 = 0, NULL, DATE '2024-02-29') AS d",
        "id % 2 = 1 AS b",
        "IF(id % 6 = 5, NULL, CAST(id % 6 AS INT)) AS n",
    ).writeTo(iceberg_table).append()
    with asking.indexed(iceberg):
        iceberg.sql(f"CREATE INDEX ik ON TABLE {iceberg_table} (k) AS 'BITMAP'")
    iceberg.sql(f"DELETE FROM {iceberg_table} WHERE id % 100 = 7 AND id < 5000")
    hive_bitmap.rebuild(iceberg, iceberg_table)
    for query in BY_PARTITIONS:
        query = of(query, iceberg_table)
        asking.require_alike(iceberg, query, "index only")
        assert asking.used(iceberg, query, "index only") == [("t", "answered")], query
    asking.require_alike(iceberg, of("SELECT id FROM t WHERE p = 'a' AND k = 7 OR n = 9", iceberg_table), "blocks")
    iceberg.sql(f"ALTER TABLE {iceberg_table} DROP PARTITION FIELD p")
    iceberg.sql(f"INSERT INTO {iceberg_table} VALUES (1, 7, 'a', NULL, true, 3)")
    for query in BY_PARTITIONS[:4]:
        asking.require_alike(iceberg, of(query, iceberg_table), "index only")
        assert ("t", "answered") not in asking.used(iceberg, of(query, iceberg_table), "index only")


@pytest.mark.parametrize("by", ["p", "bucket(4, id), p", "truncate(1, s)", "truncate(50, k)"])
def test_hidden_partitioning(iceberg: SparkSession, iceberg_table: str, by: str) -> None:
    """Files are pruned by Iceberg and narrowed by the index, whose column a transform may partition by."""
    create(iceberg, iceberg_table, by=by, write_spark_fanout_enabled="true")
    iceberg.range(0, 20_000, 1, 1).selectExpr(*ROWS).writeTo(iceberg_table).append()
    with asking.indexed(iceberg):
        iceberg.sql(f"CREATE INDEX ik ON TABLE {iceberg_table} (k) AS 'BITMAP'")
    require_narrowed(iceberg, iceberg_table)
    require_counted(iceberg, iceberg_table)
    iceberg.sql(f"DELETE FROM {iceberg_table} WHERE k = 9")
    hive_bitmap.rebuild(iceberg, iceberg_table)
    require_narrowed(iceberg, iceberg_table)
