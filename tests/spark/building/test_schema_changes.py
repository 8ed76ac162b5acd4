"""Changes of the table's columns that leave its indexes as they are: nothing is read again, and answers stay right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import hive_bitmap
from hive_bitmap.spark.registry import catalog
from tests import asking
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

QUERIES = (
    "SELECT count(*) FROM t WHERE k = 3",
    "SELECT k, count(*) FROM t GROUP BY k",
    "SELECT max(k), min(k) FROM t",
    "SELECT * FROM t WHERE k = 3",
    "SELECT id, more FROM t WHERE k = 3 AND more IS NULL",
)


@pytest.fixture(params=["parquet", "orc"])
def table(request: pytest.FixtureRequest, spark: SparkSession, database: str) -> str:
    """Table t of two days, with an index on k."""
    spark.sql(f"CREATE TABLE t (k int, id bigint, day int) USING {request.param} PARTITIONED BY (day)")
    for day in (1, 2):
        load(spark, day)
    hive_bitmap.build(spark, "t", ["k"])
    return "t"


def load(spark: SparkSession, day: int, more: str = "") -> None:
    rows = f"SELECT CAST(id % 7 AS int), id {more}, {day} FROM range(0, 200, 1, 1)"
    spark.sql(f"INSERT INTO t PARTITION (day) {rows}")


def files_to_read(spark: SparkSession) -> int:
    return sum(one.files for one in hive_bitmap.preview(spark, "t"))


def require_right(spark: SparkSession) -> None:
    for query in QUERIES:
        asking.require_alike(spark, query, "", "rows", "blocks", "index only")
    assert [found.problems for found in hive_bitmap.verify(spark, "t")] == [()]


@pytest.mark.contract
def test_columns_that_are_added_cost_nothing(spark: SparkSession, table: str) -> None:
    spark.sql("ALTER TABLE t ADD COLUMNS (more string COMMENT 'new')")
    assert files_to_read(spark) == 0
    assert [(one.fresh, one.stale) for one in hive_bitmap.show(spark, "t")] == [(2, 0)]
    assert asking.told(spark, QUERIES[0], "index only") == [("t", "answered")]
    require_right(spark)
    load(spark, 3, ", 'x'")
    assert files_to_read(spark) == 1
    [report] = hive_bitmap.rebuild(spark, "t")
    assert (report.files_read, report.segments, report.index_rows) == (1, 2, 21)
    spark.sql("ALTER TABLE t ADD COLUMNS (other struct<a: int>, late int)")
    load(spark, 4, ", 'y', named_struct('a', 1), 5")
    assert files_to_read(spark) == 1
    hive_bitmap.rebuild(spark, "t")
    require_right(spark)
    [plan] = {hive_bitmap.plan(spark, "t", "k = 3", ["id", "more"]).reason for _ in range(1)}
    assert "added since" not in plan


def test_it_holds_in_another_session(spark: SparkSession, table: str, database: str) -> None:
    spark.sql("ALTER TABLE t ADD COLUMNS (more string)")
    catalog.clear_caches()
    other = spark.newSession()
    other.sql(f"USE {database}")
    assert asking.told(other, QUERIES[1], "index only") == [("t", "answered")]
    require_right(other)


def test_comments_cost_nothing(spark: SparkSession, table: str) -> None:
    spark.sql("ALTER TABLE t ALTER COLUMN id COMMENT 'of a row'")
    spark.sql("ALTER TABLE t ADD COLUMNS (more int)")
    spark.sql("ALTER TABLE t ALTER COLUMN more COMMENT 'and more'")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')")
    assert files_to_read(spark) == 0
    require_right(spark)


@pytest.mark.parametrize(
    ("columns", "reads"),
    [
        ("k int, more bigint, id bigint", 0),
        ("k int, more string", 0),
        pytest.param("k int, id string, more int", 0, marks=pytest.mark.contract),
    ],
)
def test_other_columns_of_parquet_may_change_too(
    spark: SparkSession, database: str, tmp_path: Path, columns: str, reads: int
) -> None:
    """Columns are found by name: those that are no keys may be moved, dropped or become others, as Hive can do."""
    pq.write_table(pa.table({"k": pa.array([1, 3, 3], pa.int32()), "more": [7, 8, 9]}), tmp_path / "1.parquet")
    spark.sql(f"CREATE EXTERNAL TABLE t (k int, id bigint) STORED AS PARQUET LOCATION '{tmp_path}'")
    hive_bitmap.build(spark, "t", ["k"])
    _columns_by_hive(spark, database, columns)
    catalog.clear_caches()
    assert files_to_read(spark) == reads
    for query in ("SELECT count(*) FROM t WHERE k = 3", "SELECT k, count(*) FROM t GROUP BY k"):
        asking.require_alike(spark, query, "", "index only")
    assert asking.told(spark, "SELECT k, count(*) FROM t GROUP BY k", "index only") == [("t", "answered")]


# Of one type: the metastore refuses a column of a lesser type in the place of another.
ROWS = {name: pa.array([*some] * 50, pa.int32()) for name, some in {"k": (1, 3, 3, None), "id": (4, 5, 6, 7)}.items()}
ROWS["more"] = pa.array([7, 8, None, 9] * 50, pa.int32())
CHANGES = ("id int, k int, more int", "k int", "more int, k int", "k int, id string, more int", "a int, k int")


def orc_table(spark: SparkSession, folder: Path, rows: dict[str, pa.Array], columns: str) -> None:
    orc.write_table(pa.table(rows), folder / "1.orc", stripe_size=1024)
    spark.sql(f"CREATE EXTERNAL TABLE t ({columns}) STORED AS ORC LOCATION '{folder}'")
    hive_bitmap.build(spark, "t", ["k"])


@pytest.mark.parametrize("columns", contract(CHANGES, "more int, k int"))
def test_other_columns_of_orc_files_with_names_may_change_too(
    spark: SparkSession, database: str, tmp_path: Path, columns: str
) -> None:
    """As those of Parquet files, and the key itself may be moved; `requestedColumnIds` of OrcUtils finds it by name."""
    orc_table(spark, tmp_path, ROWS, "k int, id int, more int")
    _columns_by_hive(spark, database, columns)
    catalog.clear_caches()
    assert files_to_read(spark) == 0
    assert [(one.fresh, one.stale) for one in hive_bitmap.show(spark, "t")] == [(1, 0)]
    counts = ("SELECT count(*) FROM t WHERE k = 3", "SELECT k, count(*) FROM t GROUP BY k")
    for query in counts:
        asking.require_alike(spark, query, "", "index only")
        assert asking.told(spark, query, "index only") == [("t", "answered")]
    asking.require_alike(spark, "SELECT k FROM t WHERE k = 3", "", "rows", "blocks", "files")
    if "more int" in columns:
        asking.require_alike(spark, "SELECT k, more FROM t WHERE k = 3", "", "rows", "blocks", "files")
    assert "rows" not in map(str, hive_bitmap.plan(spark, "t", "k = 3").costs)
    assert [found.problems for found in hive_bitmap.verify(spark, "t")] == [()]


def test_an_index_follows_where_orc_columns_were_moved_twice(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    orc_table(spark, tmp_path, ROWS, "k int, id int, more int")
    _columns_by_hive(spark, database, "id int, k int")
    catalog.clear_caches()
    orc.write_table(pa.table({name: pa.array([3, 4], pa.int32()) for name in ("id", "k")}), tmp_path / "2.orc")
    spark.catalog.refreshTable("t")
    [report] = hive_bitmap.refresh(spark, "t")
    assert (report.files_read, files_to_read(spark)) == (1, 0)
    _columns_by_hive(spark, database, "more int, k int")
    catalog.clear_caches()
    assert files_to_read(spark) == 0
    asking.require_alike(spark, "SELECT k, count(*) FROM t GROUP BY k", "", "index only")
    asking.require_alike(spark, "SELECT k, more FROM t WHERE k = 3", "", "blocks")


WITHOUT_NAMES = {f"_col{number}": values for number, values in enumerate(ROWS.values())}
WITH_TIMES = {**ROWS, "more": pa.array([0, 1, None, 2] * 50, pa.timestamp("us"))}


@pytest.mark.parametrize(
    ("rows", "before", "after"),
    [
        pytest.param(WITHOUT_NAMES, "k int, id int, more int", "id int, k int, more int", marks=pytest.mark.contract),
        (WITHOUT_NAMES, "k int, id int, more int", "k int, more int, id int"),
        (WITH_TIMES, "k int, id int, more timestamp", "k int, other int, more timestamp"),
    ],
)
def test_orc_files_without_names_or_with_times_are_read_again(
    spark: SparkSession, database: str, tmp_path: Path, rows: dict[str, pa.Array], before: str, after: str
) -> None:
    orc_table(spark, tmp_path, rows, before)
    _columns_by_hive(spark, database, after)
    catalog.clear_caches()
    assert files_to_read(spark) == 1
    asking.require_alike(spark, "SELECT count(*) FROM t WHERE k = 3", "", "index only", "blocks")
    assert [(one.fresh, one.stale) for one in hive_bitmap.show(spark, "t")] == [(0, 1)]


def test_a_file_that_has_the_added_column_already_is_read_by_spark(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """Whether tasks read it as Spark does was not looked at: here the file has another type."""
    rows = {"k": pa.array([i % 9 for i in range(900)], pa.int32()), "more": pa.array(range(900), pa.uint64())}
    pq.write_table(pa.table(rows), tmp_path / "1.parquet", row_group_size=100)
    spark.sql(f"CREATE EXTERNAL TABLE t (k int) STORED AS PARQUET LOCATION '{tmp_path}'")
    hive_bitmap.build(spark, "t", ["k"])
    spark.sql("ALTER TABLE t ADD COLUMNS (more decimal(20,0))")
    assert "rows" not in map(str, hive_bitmap.plan(spark, "t", "k = 3 AND more < 500").costs)
    for query in ("SELECT * FROM t WHERE k = 3", "SELECT count(*), sum(more) FROM t WHERE k = 3"):
        asking.require_alike(spark, query, "", "blocks")


def _columns_by_hive(spark: SparkSession, database: str, columns: str) -> None:
    """Give a table other columns, as Hive's ALTER TABLE .. REPLACE COLUMNS does; Spark has no statement for it."""
    jvm = spark._jvm
    assert jvm is not None
    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(columns)
    catalog_of_spark = spark._jsparkSession.sessionState().catalog().externalCatalog()
    catalog_of_spark.alterTableSchema(database, "t", schema)
    spark.catalog.refreshTable("t")
