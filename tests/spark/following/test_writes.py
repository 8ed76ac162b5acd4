"""Each kind of write is followed: afterwards the index knows all files, and queries answer as a full scan does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import hive_bitmap
from hive_bitmap.spark.jvm_bridge import bridge
from tests.asking import under
from tests.contract import contract
from tests.spark.following.tables import SECONDS, make, require_followed

pytestmark = pytest.mark.turn(2)

FORMATS = ["USING parquet", "USING orc", "STORED AS PARQUET", "STORED AS ORC", "STORED AS TEXTFILE"]
STATEMENTS = [
    "INSERT INTO t VALUES (1, 1, 7, 'a')",
    "INSERT INTO t SELECT k, v, p + 1, q FROM t WHERE k < 3",
    "INSERT INTO t PARTITION (p = 8, q) SELECT 1, 2, 'b'",
    "INSERT INTO t PARTITION (p = 0, q = 'x y') SELECT 1, 2",
    "INSERT OVERWRITE t PARTITION (p = 0, q = 'x y') SELECT 1, 3",
    "INSERT OVERWRITE t PARTITION (p = 0, q) SELECT 1, 2, 'b'",
    "INSERT OVERWRITE t SELECT 4, 2, 1, 'b'",
    "ALTER TABLE t DROP PARTITION (p = 2)",
    "ALTER TABLE t ADD PARTITION (p = 9, q = 'z') PARTITION (p = 10, q = 'z')",
    "ALTER TABLE t PARTITION (p = 1, q = 'x y') RENAME TO PARTITION (p = 11, q = 'x y')",
    "TRUNCATE TABLE t",
    "TRUNCATE TABLE t PARTITION (p = 1)",
]


@pytest.mark.parametrize("statement", contract(STATEMENTS, STATEMENTS[0], STATEMENTS[6], STATEMENTS[8]))
def test_statements(following: SparkSession, statement: str) -> None:
    make(following)
    following.sql(statement)
    require_followed(following)


@pytest.mark.parametrize("format", FORMATS[1:])
def test_formats(following: SparkSession, format: str) -> None:
    make(following, format)
    for statement in STATEMENTS[:5]:
        following.sql(statement)
        require_followed(following)


@pytest.mark.parametrize("format", [pytest.param("USING parquet", marks=pytest.mark.contract), "STORED AS ORC"])
def test_an_insert_into_several_tables(following: SparkSession, format: str) -> None:
    """Spark executes its inserts as one, a union of commands: into partitions of the statement, and of the rows."""
    make(following, format)
    following.sql("CREATE TABLE unindexed (k INT, v BIGINT, p INT, q STRING) USING parquet")
    following.sql(
        "FROM range(5) INSERT INTO unindexed SELECT id, 1, 1, 'a'"
        " INSERT INTO t PARTITION (p = 0, q = 'x y') SELECT id, 1"
        " INSERT INTO t SELECT id, 1, 20, 'b'"
    )
    require_followed(following)
    following.sql(
        "WITH few AS (SELECT id FROM range(5))"
        " FROM few INSERT OVERWRITE TABLE t PARTITION (p = 1, q = 'x y') SELECT id, 1"
        " INSERT INTO unindexed SELECT id, 1, 1, 'a'"
    )
    require_followed(following)


def test_an_insert_into_several_tables_that_fails_later(following: SparkSession) -> None:
    make(following, partitioned=False)
    following.sql("CREATE TABLE unindexed (k INT) USING parquet")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        following.sql(
            "FROM range(5) INSERT INTO t SELECT id, 1, 1, 'a'"
            " INSERT INTO unindexed SELECT CAST(concat('not', id) AS INT)"
        )
    require_followed(following)
    assert following.sql("SELECT count(*) FROM t").first() == (305,)


def test_dynamic_overwriting(following: SparkSession) -> None:
    make(following)
    following.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        following.sql("INSERT OVERWRITE t SELECT 4, 2, 1, 'x y'")
    finally:
        following.conf.unset("spark.sql.sources.partitionOverwriteMode")
    require_followed(following)
    assert following.table("t").count() > 100


def test_an_unpartitioned_table(following: SparkSession) -> None:
    make(following, partitioned=False)
    for statement in (
        "INSERT INTO t VALUES (1, 1, 7, 'a')",
        "INSERT OVERWRITE t VALUES (1, 1, 7, 'a')",
        "TRUNCATE TABLE t",
    ):
        following.sql(statement)
        require_followed(following)


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(20).selectExpr("CAST(id AS INT) k", "id v", "CAST(id % 4 AS INT) p", "'w' q")


def location(spark: SparkSession) -> str:
    [found] = spark.sql("DESCRIBE FORMATTED t").where("col_name = 'Location'").collect()
    return str(found.data_type)


FRAMES: dict[str, Callable[[SparkSession], None]] = {
    "insertInto": lambda spark: rows(spark).write.insertInto("t"),
    "insertInto, overwriting": lambda spark: rows(spark).write.insertInto("t", overwrite=True),
    "saveAsTable": lambda spark: (
        rows(spark).write.mode("append").format("parquet").partitionBy("p", "q").saveAsTable("t")
    ),
    "by path, into a partition": lambda spark: (
        rows(spark).drop("p", "q").write.mode("append").parquet(f"{location(spark)}/p=1/q=x y")
    ),
}


@pytest.mark.parametrize(
    "write", contract(FRAMES.values(), FRAMES["saveAsTable"], FRAMES["by path, into a partition"]), ids=FRAMES
)
def test_frames(following: SparkSession, write: Callable[[SparkSession], None]) -> None:
    make(following)
    write(following)
    require_followed(following)


def test_new_folders_of_a_path_and_msck(following: SparkSession) -> None:
    make(following)
    rows(following).write.mode("append").partitionBy("p", "q").parquet(location(following))
    following.sql("MSCK REPAIR TABLE t")
    require_followed(following)


def test_load_data(following: SparkSession, tmp_path: Path) -> None:
    make(following, "STORED AS PARQUET")
    rows(following).drop("p", "q").coalesce(1).write.parquet(str(tmp_path / "new"))
    following.sql(f"LOAD DATA INPATH '{tmp_path}/new' INTO TABLE t PARTITION (p = 1, q = 'loaded')")
    require_followed(following)


def test_a_new_session_is_followed(following: SparkSession) -> None:
    make(following)
    other = following.newSession()
    other.sql(f"INSERT INTO {following.catalog.currentDatabase()}.t VALUES (1, 1, 7, 'a')")
    require_followed(following)


def test_a_table_made_anew(following: SparkSession) -> None:
    make(following)
    rows(following).write.mode("overwrite").saveAsTable("t")
    assert hive_bitmap.refreshed(following, SECONDS)
    assert following.sql("SELECT count(*) FROM t WHERE k = 3").collect() == [(1,)]


@pytest.mark.contract
def test_a_session_can_veto(following: SparkSession) -> None:
    make(following)
    following.conf.set("hive_bitmap.auto_refresh", "false")
    try:
        following.sql("INSERT INTO t VALUES (1, 1, 7, 'a')")
        assert hive_bitmap.refreshed(following, SECONDS)
        [status] = hive_bitmap.show(following, "t")
        assert status.unindexed == 1 and status.lag > 0
    finally:
        following.conf.unset("hive_bitmap.auto_refresh")
    following.sql("INSERT INTO t VALUES (1, 1, 8, 'a')")
    assert hive_bitmap.refreshed(following, SECONDS)
    [status] = hive_bitmap.show(following, "t")
    assert [one.name for one in status.partitions if one.unindexed] == ["p=7/q=a"]  # what was written is looked at


def test_a_failed_write_and_one_of_another_table_change_nothing(following: SparkSession) -> None:
    make(following)
    following.sql("CREATE TABLE other USING parquet AS SELECT 1 AS k")
    following.sql("INSERT INTO other VALUES (2)")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        following.sql("INSERT INTO t SELECT CAST('nothere' AS INT), 1, 1, 'a'")
    require_followed(following)


@pytest.mark.parametrize("format", [pytest.param("USING parquet", marks=pytest.mark.contract), "STORED AS TEXTFILE"])
def test_no_failure_of_ours_fails_an_insert(following: SparkSession, format: str) -> None:
    """Spark has committed it before Python is told: here the queue of what is to be told is missing."""
    make(following, format)
    writes = bridge(following).getClass().getClassLoader().loadClass("hive_bitmap.catalyst.following.Writes")
    field = writes.getDeclaredField("thread")
    field.setAccessible(True)
    queue = field.get(None)
    field.set(None, None)
    try:
        following.sql("INSERT INTO t SELECT 1, 1, 7, 'a'")
    finally:
        field.set(None, queue)
    assert following.sql("SELECT count(*) FROM t").first() == (301,)


def test_plans_are_shown_as_spark_shows_them(following: SparkSession) -> None:
    make(following)
    insert = "EXPLAIN FORMATTED INSERT INTO t VALUES (1, 1, 7, 'a')"
    shown = following.sql(insert).collect()[0][0]
    with under(following, {"hive_bitmap.enabled": "false"}):
        plain = following.sql(insert).collect()[0][0]
    assert "InsertIntoHadoopFsRelationCommand" in plain and "Followed" not in shown
    assert re.sub(r"#\d+", "#", shown) == re.sub(r"#\d+", "#", plain)
