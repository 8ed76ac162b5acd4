"""Indexes of Delta tables: statements, what queries gain, and what is left to Delta."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
COLUMNS = "id BIGINT, k INT, s STRING, p STRING"
ROWS = (
    "id",
    "CAST(IF(id % 10000 < 5000, id % 500, id DIV 10) AS INT) AS k",
    "md5(CAST(id AS STRING)) AS s",
    "CONCAT('p', id % 2) AS p",
)
SELECTS = (
    "SELECT * FROM t WHERE k = 7",
    "SELECT id, s FROM t WHERE k IN (7, 8) AND id > 100",
    "SELECT s FROM t WHERE k = 123456",
    "SELECT s FROM t WHERE k = 777 OR k = 1555",
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


def test_delta_plans_the_scan_and_parts_of_its_files_are_left_out(spark: SparkSession, database: str) -> None:
    """A FileIndex of ours in the logical plan would bring deleted rows back."""
    make(spark, files=2, enableDeletionVectors="true")
    spark.sql("DELETE FROM t WHERE id = 7")
    plan = hive_bitmap.plan(spark, "t", "k = 777")
    assert plan.blocks_selected == 1 < plan.files.num_rows < (plan.blocks_total or 0)
    with asking.indexed(spark, "blocks"):
        frame = spark.sql("SELECT id FROM t WHERE k = 7")
        execution = frame._jdf.queryExecution()
        logical = execution.optimizedPlan().collectLeaves().head().relation().location()
        assert logical.getClass().getSimpleName() == "PreparedDeltaFileIndex"
        physical = execution.executedPlan().toString()
        assert "__delta_internal_is_row_deleted" in physical
        assert "NarrowedScan blocks by the bitmap index" in physical and "SelectedDeltaFiles" in physical
        assert len(frame.collect()) == 19
    asking.require_alike(spark, "SELECT count(*) FROM t WHERE k = 7", "index only")


OVER_PARTITIONS = (
    "p = 'p1' AND k = 7",
    "p IN ('p0', 'p1') AND k < 9",
    "p <> 'p0' AND k IN (7, 8)",
    "upper(p) = 'P1' AND k = 7",
    "p > 'p' AND d = DATE '2024-01-02' AND k = 7",
    "d IS NULL AND k > 490",
    "p = 'p1'",
    "p = 'none' AND k = 7",
)


def test_counts_with_conditions_on_partitions_come_from_the_index(spark: SparkSession, database: str) -> None:
    """The files that Delta lists for such a condition are those of the partitions that satisfy it."""
    spark.sql("CREATE TABLE t (id BIGINT, k INT, p STRING, d DATE) USING delta PARTITIONED BY (p, d)")
    spark.sql(
        "INSERT INTO t SELECT id, CAST(id % 500 AS INT), CONCAT('p', id % 2), "
        "IF(id % 6 = 5, NULL, DATE_ADD(DATE '2024-01-01', CAST(id % 3 AS INT))) FROM range(0, 20000, 1, 2)"
    )
    with asking.indexed(spark):
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
    for condition in OVER_PARTITIONS:
        counted = f"SELECT count(*) FROM t WHERE {condition}"
        for query in (counted, f"SELECT k, count(*) FROM t WHERE {condition} GROUP BY k"):
            asking.require_alike(spark, query, "index only", "blocks")
            if "none" not in condition:  # of which no file is listed
                assert asking.used(spark, query, "index only") == [("t", "answered")], query
    both = "SELECT count(*) FROM t WHERE (p = 'p1' OR k = 7) AND k < 9"  # tests rows as well
    asking.require_alike(spark, both, "index only", "blocks")
    assert asking.used(spark, both, "index only") == [("t", "answered")]
    joined = "SELECT count(*) FROM t JOIN (SELECT 'p1' AS q) ON p = q WHERE k = 7"
    asking.require_alike(spark, joined, "index only", "blocks")
    by_subquery = "SELECT count(*) FROM t WHERE p = (SELECT max(p) FROM t) AND k = 7"
    asking.require_alike(spark, by_subquery, "index only", "blocks")
    with asking.under(spark, {"spark.databricks.delta.stats.skipping": "false"}):
        asking.require_alike(spark, f"SELECT count(*) FROM t WHERE {OVER_PARTITIONS[0]}", "index only")


BY_PARTITIONS = (
    "SELECT p, count(*) FROM t GROUP BY p",
    "SELECT p, d, b, k, count(*) FROM t WHERE k < 20 GROUP BY p, d, b, k",
    "SELECT d, count(DISTINCT k), min(k), sum(n) FROM t GROUP BY d",
    "SELECT upper(p), count(*), max(n) FROM t WHERE k IN (7, 8) AND (b OR n = 1) GROUP BY upper(p)",
    "SELECT count(p), min(p), count(DISTINCT n) FROM t WHERE k = 7",
    "SELECT max(d) FROM t WHERE k = 7",
    "SELECT count(*) FROM t WHERE (p = 'a' OR k = 7) AND (n > 1 OR d IS NULL OR k = 8)",
    "SELECT n, count(*) FROM t WHERE p IS NULL AND (n IS NULL OR k > 490) GROUP BY n",
    "SELECT p, count(*) FROM t WHERE p <> 'a' AND k = 7 GROUP BY p",
    "SELECT k, count(*) FROM t WHERE NOT (b AND k > 3) GROUP BY k",
    "SELECT p, k, count(*) FROM t WHERE p IN ('none') OR k = 7 GROUP BY p, k",
)


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_partition_columns_are_keys_of_counts(spark: SparkSession, database: str, mapping: str) -> None:
    """The log has their values; of NULL, of what is written in other ways, and of some rows that are deleted, too."""
    spark.sql(
        "CREATE TABLE t (id BIGINT, k INT, p STRING, d DATE, b BOOLEAN, n INT) USING delta PARTITIONED BY (p, d, b, n) "
        f"TBLPROPERTIES ('delta.columnMapping.mode'='{mapping}', 'delta.enableDeletionVectors'='true')"
    )
    for first in (0, 20_000):
        spark.sql(
            "INSERT INTO t SELECT id, CAST(id % 500 AS INT), IF(id % 3 = 0, NULL, IF(id % 3 = 1, 'a', 'A\t=b/c')), "
            "IF(id % 2 = 0, NULL, DATE '0999-12-31'), id % 2 = 1, IF(id % 6 = 5, NULL, CAST(id % 6 AS INT)) "
            f"FROM range({first}, {first + 20_000}, 1, 1)"
        )
    with asking.indexed(spark):
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
    spark.sql("DELETE FROM t WHERE id % 100 = 7 AND id < 10000")
    spark.sql("INSERT INTO t VALUES (1, 7, 'a', NULL, true, 1)")
    for query in BY_PARTITIONS:
        asking.require_alike(spark, query, "index only")
    hive_bitmap.rebuild(spark, "t")  # of several key sets, each would have Spark count the new file
    left = [query for query in BY_PARTITIONS if asking.used(spark, query, "index only") != [("t", "answered")]]
    assert left == [query for query in BY_PARTITIONS if re.search(r"\bd\b", query)]  # of years before 1000
    spark.sql("DELETE FROM t WHERE id = 1 AND k = 7")
    asking.require_alike(spark, "SELECT s FROM (SELECT p AS s FROM t WHERE p = 'a' OR k = 7)", "blocks", "files")


def test_partitions_of_types_that_only_spark_reads_and_many_of_them(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k INT, p TIMESTAMP, q INT, v VARCHAR(9)) USING delta PARTITIONED BY (p, q, v)")
    spark.sql(
        "INSERT INTO t SELECT CAST(id % 50 AS INT), TIMESTAMP '2020-01-01 00:00:00' + INTERVAL 1 HOUR * (id % 2), "
        "CAST(id % 4 AS INT), CONCAT('v', id % 2) FROM range(0, 4000, 1, 1)"
    )
    with asking.indexed(spark):
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
    by_number = "SELECT q, count(*) FROM t WHERE k < 9 GROUP BY q"
    for query in (
        "SELECT p, count(*) FROM t WHERE k < 9 GROUP BY p",
        "SELECT v, count(*) FROM t WHERE k < 9 GROUP BY v",
        "SELECT count(*) FROM t WHERE p > '2020-01-01 00:30:00' OR k = 7",
        by_number,
    ):
        asking.require_alike(spark, query, "index only")
        assert (asking.used(spark, query, "index only") == [("t", "answered")]) == (query == by_number), query
        with asking.under(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
            asking.require_alike(spark, query, "index only")
    spark.sql("INSERT INTO t SELECT 7, TIMESTAMP '2020-01-01', CAST(id + 10 AS INT), 'v' FROM range(100)")
    asking.require_alike(spark, by_number, "index only")
    assert ("t", "answered") not in asking.used(spark, by_number, "index only")


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


def test_the_life_of_a_table(spark: SparkSession, database: str) -> None:
    """Statements that write and remove files; a rebuild reads the new ones only, and old versions gain as well."""
    make(spark, files=2, **DVS)
    assert status(spark) == (2, 0, 0)
    append(spark, first=2)
    assert status(spark) == (2, 1, 0)
    asking.require_alike(spark, COUNTS[1], "index only")
    with asking.indexed(spark):
        (report,) = hive_bitmap.rebuild(spark, "t")
    assert (report.files_read, report.base_files, report.changed) == (1, 3, 0)
    assert [one.base_files for one in hive_bitmap.rebuild(spark, "t")] == [3]

    spark.sql("OPTIMIZE t")
    assert status(spark) == (0, 1, 3)
    for query in ("SELECT count(*) FROM t VERSION AS OF 2 WHERE k = 7", "SELECT s FROM t VERSION AS OF 3 WHERE k = 7"):
        way = "index only" if "count" in query else "files"
        asking.require_alike(spark, query, way)
        assert asking.used(spark, query, way), query
    asking.require_alike(spark, COUNTS[0], "index only")
    hive_bitmap.rebuild(spark, "t")
    assert status(spark) == (1, 0, 0)

    spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT id, CAST(id AS INT) AS k FROM range(0, 100, 1, 1)")
    assert status(spark) == (0, 1, 1)
    asking.require_alike(spark, "SELECT * FROM t WHERE k = 7", "blocks")
    with asking.indexed(spark):
        spark.sql("DROP INDEX ik ON t")
        assert hive_bitmap.show(spark, "t") == []
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
        spark.sql("DROP TABLE t")
    assert spark.sql("SHOW TABLES").collect() == []


def test_columns_that_are_renamed_dropped_and_added(spark: SparkSession, database: str) -> None:
    """An index is of a column, whatever is called so later; a version of before has it back."""
    make(spark, files=1, **MAPPED)
    before = spark.sql("DESCRIBE HISTORY t").count() - 1
    spark.sql("ALTER TABLE t RENAME COLUMN s TO z")
    asking.require_alike(spark, "SELECT z FROM t WHERE k = 7", "blocks")
    spark.sql("ALTER TABLE t RENAME COLUMN k TO j")
    assert "is gone" in hive_bitmap.show(spark, "t")[0].problem
    spark.sql("ALTER TABLE t ADD COLUMN k INT")
    assert "is another column of that name" in hive_bitmap.show(spark, "t")[0].problem
    spark.sql("INSERT INTO t SELECT 1, 7, 'z', 'p0', 7")
    for query in ("SELECT * FROM t WHERE k = 7", f"SELECT id FROM t VERSION AS OF {before} WHERE k = 7"):
        asking.require_alike(spark, query, "blocks")
    assert asking.used(spark, f"SELECT id FROM t VERSION AS OF {before} WHERE k = 7", "blocks") == [("t", "narrowed")]
    with asking.indexed(spark):
        spark.sql("DROP INDEX ik ON t")
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
    for query in ("SELECT * FROM t WHERE k = 7", f"SELECT id FROM t VERSION AS OF {before} WHERE k = 7"):
        asking.require_alike(spark, query, "blocks")
    asking.require_alike(spark, "SELECT k, count(*) FROM t WHERE k IS NULL OR k < 9 GROUP BY k", "index only")
    assert asking.used(spark, "SELECT * FROM t WHERE k = 7", "files") == [("t", "narrowed")]


def test_a_column_found_by_id_and_one_of_a_wider_type(spark: SparkSession, database: str) -> None:
    make(spark, files=1, **{"columnMapping.mode": "id", "enableTypeWidening": "true"})
    require_narrowed(spark)
    spark.sql("ALTER TABLE t ALTER COLUMN k TYPE BIGINT")
    assert "is bigint" in hive_bitmap.show(spark, "t")[0].problem
    with asking.indexed(spark):
        spark.sql("DROP INDEX ik ON t")
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
    append(spark, first=1)
    hive_bitmap.rebuild(spark, "t")
    assert status(spark) == (2, 0, 0)
    require_narrowed(spark)
    asking.require_alike(spark, COUNTS[1], "index only")


def test_names_of_partitions_that_are_escaped(spark: SparkSession, database: str) -> None:
    """The log has paths as URIs, of folders whose names are escaped already."""
    values = ["a b", "ü+%", "x=1/2", "100%25", "c:d"]
    spark.sql("CREATE TABLE t (id BIGINT, k INT, p STRING) USING delta PARTITIONED BY (p)")
    for value in values:
        spark.sql(f"INSERT INTO t SELECT id, CAST(id % 50 AS INT), '{value}' FROM range(0, 500, 1, 1)")
    with asking.indexed(spark):
        spark.sql("CREATE INDEX ik ON TABLE t (k) AS 'BITMAP'")
    assert status(spark) == (len(values), 0, 0)
    for query in (
        "SELECT * FROM t WHERE k = 7",
        "SELECT * FROM t WHERE k = 77",
        "SELECT k FROM t WHERE p = 'a b' AND k = 3",
    ):
        asking.require_alike(spark, query, "blocks", "files")
    assert asking.used(spark, "SELECT * FROM t WHERE k = 77", "files") == [("t", "narrowed")]
