"""The life of an Iceberg table: snapshots, branches, columns and partitions that change, under its indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests import asking
from tests.lake.test_delta import COUNTS
from tests.lake.test_iceberg import (
    CATALOGS,
    IN_LAKE,
    append,
    create,
    make,
    of,
    require_counted,
    require_narrowed,
    status,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.lake, pytest.mark.turn(2)]


def call(spark: SparkSession, table: str, procedure: str, arguments: str = "") -> None:
    catalog, database, name = table.split(".")
    more = f", {arguments}" if arguments else ""
    spark.sql(f"CALL {catalog}.system.{procedure}(table => '{database}.{name}'{more})")


def snapshots(spark: SparkSession, table: str) -> list[int]:
    rows = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()
    return [id for (id,) in rows]


@CATALOGS
def test_statements_that_write_and_remove_files(iceberg: SparkSession, iceberg_table: str) -> None:
    """A rebuild reads the new files only, and old versions gain for files that are still in the index."""
    spark, t = iceberg, iceberg_table
    make(spark, t, files=2)
    first, second = snapshots(spark, t)
    append(spark, t, first=2)
    assert status(spark, t) == (2, 1, 0)
    require_counted(spark, t)
    with asking.indexed(spark):
        (report,) = hive_bitmap.rebuild(spark, t)
    assert (report.files_read, report.base_files, report.changed) == (1, 3, 0)
    old = [
        f"SELECT count(*) FROM {t} VERSION AS OF {first} WHERE k = 7",
        f"SELECT s FROM {t} VERSION AS OF {second} WHERE k = 7",
    ]
    for query, way in zip(old, ("index only", "blocks"), strict=True):
        asking.require_alike(spark, query, way)
        assert asking.used(spark, query, way), query
    call(spark, t, "rollback_to_snapshot", f"snapshot_id => {second}")
    assert status(spark, t) == (2, 0, 1)
    require_narrowed(spark, t)
    require_counted(spark, t)
    call(spark, t, "rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert status(spark, t) == (0, 1, 3)
    for query, way in zip(old, ("index only", "blocks"), strict=True):
        asking.require_alike(spark, query, way)
        assert asking.used(spark, query, way), query
    asking.require_alike(spark, of(COUNTS[0], t), "index only", "blocks")
    hive_bitmap.rebuild(spark, t)
    assert status(spark, t) == (1, 0, 0)
    call(spark, t, "expire_snapshots", "older_than => current_timestamp(), retain_last => 1")
    require_narrowed(spark, t)
    spark.sql(f"INSERT OVERWRITE {t} SELECT id, 7, s, p FROM {t} WHERE k < 50")
    asking.require_alike(spark, of("SELECT * FROM t WHERE k = 7", t), "blocks", "files")
    hive_bitmap.rebuild(spark, t)
    with asking.indexed(spark):
        spark.sql(
            f"MERGE INTO {t} t USING (SELECT id FROM range(20)) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET k = 8 "
            "WHEN NOT MATCHED THEN INSERT (id, k, s, p) VALUES (u.id, 9, 's', 'p')"
        )
        spark.sql(f"UPDATE {t} SET k = 7 WHERE k = 8 AND id < 10")
        spark.sql(f"DELETE FROM {t} WHERE k = 7 AND id < 30")
        spark.sql(f"INSERT INTO {t} SELECT id, 10, s, p FROM {t} WHERE k = 7 AND id < 100")
    for query in ("SELECT * FROM t WHERE k = 7", "SELECT * FROM t WHERE k IN (8, 9, 10)"):
        asking.require_alike(spark, of(query, t), "blocks", "files")
    asking.require_alike(spark, of(COUNTS[1], t), "index only")
    with asking.indexed(spark):
        spark.sql(f"DROP TABLE {t}")
    left = [name for _, name, _ in spark.sql(f"SHOW TABLES IN spark_catalog.{t.split('.')[1]}").collect()]
    assert left == []


def test_a_session_catalog_whose_tables_are_not_in_the_metastore(
    iceberg_of_folders: SparkSession, database: str
) -> None:
    spark, t = iceberg_of_folders, f"spark_catalog.{database}.t"
    make(spark, t, files=2)
    assert status(spark, t) == (2, 0, 0)
    require_narrowed(spark, t)
    require_counted(spark, t)
    with asking.indexed(spark):
        spark.sql(f"DROP TABLE {t}")
    assert [name for _, name, _ in spark.sql(f"SHOW TABLES IN spark_catalog.{database}").collect()] == []


@IN_LAKE
def test_a_rebuild_sees_what_another_session_has_written(iceberg: SparkSession, iceberg_table: str) -> None:
    """A catalog of a session keeps a table for half a minute."""
    spark, t = iceberg, iceberg_table
    make(spark, t, files=1)
    append(spark.newSession(), t, first=1)
    hive_bitmap.rebuild(spark, t)
    assert status(spark, t) == (2, 0, 0)
    require_narrowed(spark, t)


@CATALOGS
def test_branches_and_tags(iceberg: SparkSession, iceberg_table: str) -> None:
    spark, t = iceberg, iceberg_table
    make(spark, t, files=2)
    spark.sql(f"ALTER TABLE {t} CREATE TAG before")
    spark.sql(f"ALTER TABLE {t} CREATE BRANCH b")
    spark.sql(f"DELETE FROM {t}.branch_b WHERE id = 7")
    spark.sql(f"INSERT INTO {t}.branch_b SELECT id, 7, 'b', 'p0' FROM range(100000, 100500, 1, 1)")
    spark.sql(f"DELETE FROM {t} WHERE id < 100")
    (first, *_) = snapshots(spark, t)
    sources = [
        f"{t}.branch_b",
        f"{t} VERSION AS OF 'b'",
        f"{t}.tag_before",
        f"{t} VERSION AS OF 'before'",
        f"{t}.snapshot_id_{first}",
    ]
    for source in sources:
        for query, way in (
            (f"SELECT * FROM {source} WHERE k = 7", "blocks"),
            (f"SELECT s FROM {source} WHERE k = 123456", "files"),
            (f"SELECT k, count(*) FROM {source} WHERE k < 9 GROUP BY k", "index only"),
        ):
            asking.require_alike(spark, query, way)
            assert asking.used(spark, query, way), query

    def read(session: SparkSession):  # type: ignore[no-untyped-def]
        return session.read.option("branch", "b").table(t).where("k = 7")

    asking.require_alike(spark, read, "blocks")
    assert asking.used(spark, read, "blocks")


@IN_LAKE
@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_columns_that_are_renamed_dropped_added_and_moved(
    iceberg: SparkSession, iceberg_table: str, format: str
) -> None:
    """An index is of a column, whatever is called so later; a version of before has it back."""
    spark, t = iceberg, iceberg_table
    make(spark, t, files=1, write_format_default=format)
    (before,) = snapshots(spark, t)
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN s TO z")
    spark.sql(f"ALTER TABLE {t} ALTER COLUMN k AFTER z")
    spark.sql(f"ALTER TABLE {t} ADD COLUMN s STRING FIRST")
    spark.sql(f"ALTER TABLE {t} DROP COLUMN p")
    for query in ("SELECT * FROM t WHERE k = 7", "SELECT z, s FROM t WHERE k = 777"):
        asking.require_alike(spark, of(query, t), "blocks", "files")
        assert asking.used(spark, of(query, t), "blocks") == [("t", "narrowed")]
    require_counted(spark, t)
    old = f"SELECT id, s FROM {t} VERSION AS OF {before} WHERE k = 7"
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN k TO j")
    assert "is gone" in hive_bitmap.show(spark, t)[0].problem
    spark.sql(f"ALTER TABLE {t} ADD COLUMN k INT")
    assert "is another column of that name" in hive_bitmap.show(spark, t)[0].problem
    spark.sql(f"INSERT INTO {t} (id, k, j) VALUES (1, 7, 8)")
    for query in (of("SELECT * FROM t WHERE k = 7", t), old):
        asking.require_alike(spark, query, "blocks")
    assert asking.used(spark, old, "blocks") == [("t", "narrowed")]
    assert not asking.used(spark, of("SELECT * FROM t WHERE k = 7", t), "blocks")
    with asking.indexed(spark):
        spark.sql(f"DROP INDEX ik ON {t}")
        spark.sql(f"CREATE INDEX ik ON TABLE {t} (k) AS 'BITMAP'")
    for query in (of("SELECT * FROM t WHERE k = 7", t), old):
        asking.require_alike(spark, query, "blocks", "files")
    asking.require_alike(spark, of("SELECT k, count(*) FROM t WHERE k IS NULL OR k < 9 GROUP BY k", t), "index only")
    assert asking.used(spark, of("SELECT * FROM t WHERE k = 7", t), "files") == [("t", "narrowed")]
    assert status(spark, t) == (2, 0, 0)


@IN_LAKE
@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_column_of_a_wider_type(iceberg: SparkSession, iceberg_table: str, format: str) -> None:
    spark, t = iceberg, iceberg_table
    create(spark, t, "id BIGINT, k INT, s STRING, p STRING, d DECIMAL(6,2), f FLOAT", write_format_default=format)
    rows = "id, CAST(id % 500 AS INT), CAST(id AS STRING), 'p', CAST(id % 90 AS DECIMAL(6,2)), CAST(id % 70 AS FLOAT)"
    spark.sql(f"INSERT INTO {t} SELECT {rows} FROM range(0, 5000, 1, 1)")
    hive_bitmap.build(spark, t, ["k", "d", "f"])
    for column, wider in (("k", "BIGINT"), ("d", "DECIMAL(12,2)"), ("f", "DOUBLE")):
        spark.sql(f"ALTER TABLE {t} ALTER COLUMN {column} TYPE {wider}")
    assert all("is " in one.problem for one in hive_bitmap.show(spark, t))
    spark.sql(f"INSERT INTO {t} SELECT {rows.replace('CAST(id % 500 AS INT)', '8589934592')} FROM range(0, 500, 1, 1)")
    queries = ("SELECT * FROM t WHERE k = 7", "SELECT * FROM t WHERE d = 7.00", "SELECT * FROM t WHERE f = 7.0")
    for query in queries:
        asking.require_alike(spark, of(query, t), "blocks")
    for one in hive_bitmap.show(spark, t):
        hive_bitmap.drop(spark, t, one.definition.name)
    hive_bitmap.build(spark, t, ["k", "d", "f"])
    for query in queries:
        asking.require_alike(spark, of(query, t), "blocks", "files")
        assert asking.used(spark, of(query, t), "files"), query
    assert [(one.fresh, one.unindexed) for one in hive_bitmap.show(spark, t)] == [(2, 0)] * 3
    asking.require_alike(spark, of("SELECT k, count(*) FROM t WHERE k > 400 GROUP BY k", t), "index only")


@IN_LAKE
def test_partitions_that_change(iceberg: SparkSession, iceberg_table: str) -> None:
    """Files of several ways of partitioning; a column whose values the log has from then on is no key any more."""
    spark, t = iceberg, iceberg_table
    make(spark, t, files=1)
    spark.sql(f"ALTER TABLE {t} ADD PARTITION FIELD bucket(3, id)")
    spark.sql(f"ALTER TABLE {t} ADD PARTITION FIELD p")
    spark.sql(f"INSERT INTO {t} SELECT id + 50000, k, s, p FROM {t} WHERE id < 5000")
    hive_bitmap.rebuild(spark, t)
    require_narrowed(spark, t)
    require_counted(spark, t)
    spark.sql(f"ALTER TABLE {t} DROP PARTITION FIELD p")
    spark.sql(f"ALTER TABLE {t} ADD PARTITION FIELD k")
    spark.sql(f"INSERT INTO {t} SELECT id, k, s, p FROM {t} WHERE k < 3")
    assert "partitions table" in hive_bitmap.show(spark, t)[0].problem
    for query in ("SELECT * FROM t WHERE k = 2", COUNTS[1]):
        asking.require_alike(spark, of(query, t), "blocks")
        assert not asking.used(spark, of(query, t), "blocks")


@CATALOGS
def test_a_table_that_is_made_anew_under_its_index(iceberg: SparkSession, iceberg_table: str) -> None:
    spark, t = iceberg, iceberg_table
    make(spark, t, files=1)
    made = f"CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT id, CAST(id AS INT) AS {{}} FROM range(0, 100, 1, 1)"
    for name in ("k", "j"):
        spark.sql(made.format(name))
        (found,) = hive_bitmap.show(spark, t)
        assert not found.problem or "is another column of that name" in found.problem or "is gone" in found.problem
        asking.require_alike(spark, f"SELECT * FROM {t} WHERE {name} = 7", "blocks")
        asking.require_alike(spark, f"SELECT count(*) FROM {t} WHERE {name} = 7", "index only")
    spark.sql(f"DROP TABLE {t}")
    spark.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id, CAST(id AS INT) AS k FROM range(0, 100, 1, 1)")
    asking.require_alike(spark, f"SELECT * FROM {t} WHERE k = 7", "blocks")
    with asking.indexed(spark):
        spark.sql(f"DROP INDEX ik ON {t}")
        spark.sql(f"CREATE INDEX ik ON TABLE {t} (k) AS 'BITMAP'")
    assert status(spark, t) == (1, 0, 0)
    asking.require_alike(spark, f"SELECT * FROM {t} WHERE k = 7", "blocks")


def test_names_of_partitions_that_are_escaped(iceberg: SparkSession, iceberg_table: str) -> None:
    spark, t = iceberg, iceberg_table
    create(spark, t, by="p")
    values = ["a b", "ü+%", "x=1/2", "100%25", "c:d"]
    for value in values:
        spark.sql(f"INSERT INTO {t} SELECT id, CAST(id % 50 AS INT), 's', '{value}' FROM range(0, 500, 1, 1)")
    with asking.indexed(spark):
        spark.sql(f"CREATE INDEX ik ON TABLE {t} (k) AS 'BITMAP'")
    assert status(spark, t) == (len(values), 0, 0)
    for query in (
        "SELECT * FROM t WHERE k = 7",
        "SELECT * FROM t WHERE k = 77",
        "SELECT k FROM t WHERE p = 'a b' AND k = 3",
    ):
        asking.require_alike(spark, of(query, t), "blocks", "files")
    assert asking.used(spark, of("SELECT * FROM t WHERE k = 77", t), "files") == [("t", "narrowed")]
