"""What the functions of Python are about: the table as Spark sees it, with the files that are there now."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidPredicate, NotFound
from tests.asking import under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

WRITE: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda rows, path: pq.write_table(rows, path),
    "orc": lambda rows, path: orc.write_table(rows, str(path)),
}


def rows(first: int, count: int) -> pa.Table:
    """Rows with the ids from `first` on, of which every tenth has k = 3."""
    ids = range(first, first + count)
    return pa.table({"k": pa.array([id % 10 for id in ids], pa.int32()), "id": pa.array(ids, pa.int64())})


def answers(spark: SparkSession, predicate: str, folder: Path) -> dict[str, int]:
    """How many rows satisfy a predicate on `t`, as each function tells; of the offsets, the number of files."""
    hive_bitmap.write_offsets(spark, "t", predicate, str(folder / "offsets"))
    return {
        "count": hive_bitmap.count(spark, "t", predicate),
        "group_counts": sum(hive_bitmap.group_counts(spark, "t", predicate, ["k"])["count"].to_pylist()),
        "files": len(hive_bitmap.plan(spark, "t", predicate).files),
        "files with offsets": len((folder / "offsets").read_text().splitlines()),
    }


@pytest.mark.parametrize("format", contract(WRITE, "parquet"))
@pytest.mark.parametrize("partitioned", [False, True])
def test_files_that_others_wrote_or_deleted_are_seen(
    spark: SparkSession, database: str, tmp_path: Path, format: str, partitioned: bool
) -> None:
    """A session lists files once, and again when it writes itself, or is told REFRESH TABLE."""
    home = tmp_path / "t" / "p=1" if partitioned else tmp_path / "t"
    home.mkdir(parents=True)
    by = "PARTITIONED BY (p)" if partitioned else ""
    spark.sql(f"CREATE TABLE t (k INT, id BIGINT{', p INT' * partitioned}) USING {format} {by} LOCATION '{tmp_path}/t'")
    if partitioned:
        spark.sql("ALTER TABLE t ADD PARTITION (p = 1)")
    WRITE[format](rows(0, 100), home / "a")
    hive_bitmap.build(spark, "t", ["k"])
    before = spark.table("t").where("k = 3")
    assert before.count() == 10
    for files, name, more, expected in ((2, "b", rows(100, 50), 15), (3, "c", rows(200, 20), 17)):
        WRITE[format](more, home / name)
        told = answers(spark, "k = 3", tmp_path)
        assert told["count"] == told["group_counts"] == expected, told
        assert told["files"] == told["files with offsets"] == files
        if not partitioned:
            assert before.count() == hive_bitmap.scan(spark, "t", "k = 3").count() == 10  # as the session listed it
    spark.sql("REFRESH TABLE t")
    for strategy in (None, "rows", "blocks", "files", "full scan"):
        assert hive_bitmap.scan(spark, "t", "k = 3", strategy=strategy).count() == 17
    (home / "a").unlink()
    told = answers(spark, "k = 3", tmp_path)
    assert told["count"] == told["group_counts"] == 7


def test_questions_that_are_no_scan_of_an_indexed_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """Each has a plan that says so, and the right answers."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS INT) k, id FROM range(1000)")
    spark.sql("CREATE TABLE plain USING parquet AS SELECT 1 AS k")
    spark.sql("CREATE VIEW v AS SELECT * FROM t WHERE id < 500")
    hive_bitmap.build(spark, "t", ["k"])
    for table, predicate, strategy, words in (
        ("t", "FALSE", "files", "no row satisfies"),
        ("t", "k = 3 AND k = 4", "files", "no row satisfies"),
        ("t", None, "full scan", "no condition that can be looked up in an index"),
        ("t", "id = 3", "full scan", "no index has a column that the predicate tests"),
        ("plain", "k = 1", "full scan", "the table has no index"),
        ("t", "rand() < 2", "full scan", "no condition that can be looked up in an index"),
    ):
        plan = hive_bitmap.plan(spark, table, predicate)
        assert (plan.strategy, plan.predicate) == (strategy, predicate) and words in plan.reason, plan
        where = f"WHERE {predicate}" if predicate else ""
        [[expected]] = spark.sql(f"SELECT count(*) FROM {table} {where}").collect()
        assert hive_bitmap.count(spark, table, predicate) == expected
        hive_bitmap.write_offsets(spark, table, predicate, str(tmp_path / "offsets"))
        assert bool((tmp_path / "offsets").read_text()) == bool(expected)
    assert hive_bitmap.count(spark, "v", "k = 3") == 10
    assert hive_bitmap.scan(spark, "v", "k = 3", ["id"]).count() == 10
    assert hive_bitmap.group_counts(spark, "v", "k = 3", ["K"]).to_pydict() == {"k": [3], "count": [10]}


def test_a_plan_is_that_of_the_table_and_not_of_one_in_a_subquery(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS INT) k, id FROM range(0, 1000, 1, 4)")
    hive_bitmap.build(spark, "t", ["k"])
    outer = hive_bitmap.plan(spark, "t", "k = 3 AND id < (SELECT max(id) FROM t WHERE k = 7)")
    assert outer.rows_total == 1000 and outer.indexes[0].used
    assert hive_bitmap.count(spark, "t", "k = 3 AND id < (SELECT max(id) FROM t WHERE k = 7)") == 20
    assert hive_bitmap.count(spark, "t", "k IN (SELECT k FROM t WHERE id < 3)") == 60


def test_a_small_table_is_asked_by_plan_and_left_alone_by_scan(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS INT) k, id FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    [scanned] = hive_bitmap.explain(hive_bitmap.scan(spark, "t", "k = 3")).relations
    assert scanned.reason == "too_small"
    assert hive_bitmap.plan(spark, "t", "k = 3").rows_selected == 20
    with under(spark, {"hive_bitmap.planning_seconds": "0"}):  # who asks for a plan waits for it
        assert hive_bitmap.plan(spark, "t", "k = 3").rows_selected == 20


@pytest.mark.parametrize(
    "ask",
    [
        hive_bitmap.scan,
        hive_bitmap.plan,
        pytest.param(hive_bitmap.count, marks=pytest.mark.contract),
        hive_bitmap.group_counts,
    ],
)
def test_what_spark_refuses(spark: SparkSession, database: str, ask: Callable[..., object]) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT 1 AS k")
    hive_bitmap.build(spark, "t", ["k"])
    for predicate in (
        "k =",
        "k = 1 AND",
        "k = 1 one",
        "k = 1) OR (k = 2",
        "nothing = 1",
        "k",
        "NULL",
        "sum(k) = 1",
        "é(1)",
    ):
        with pytest.raises(InvalidPredicate, match=r"Spark refuses"):
            ask(spark, "t", predicate)
    with pytest.raises(InvalidPredicate, match="surrogate"):
        ask(spark, "t", "k = '\ud800'")
    for table in ("nothing", "nothing.t", "", "t; DROP TABLE t", "a.b.c.d"):
        with pytest.raises(NotFound):
            ask(spark, table, "k = 1")
    assert spark.table("t").count() == 1


@pytest.mark.contract
def test_settings_hold_for_the_functions_too(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS INT) k, id FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    with under(spark, {"hive_bitmap.enabled": "false"}):
        assert hive_bitmap.plan(spark, "t", "k = 3").code == "off"
        assert hive_bitmap.count(spark, "t", "k = 3") == 20
    with under(spark, {"hive_bitmap.strategy": "full scan"}):
        assert hive_bitmap.plan(spark, "t", "k = 3").code == "off"
        assert hive_bitmap.count(spark, "t", "k = 3") == 20
        assert hive_bitmap.plan(spark, "t", "k = 3", strategy="rows").strategy == "rows"
    with under(spark, {"hive_bitmap.engine_reads_only": "true"}):
        plan = hive_bitmap.plan(spark, "t", "k = 3")
        assert plan.rows_selected is None and not plan.files.num_rows
        assert hive_bitmap.count(spark, "t", "k = 3") == 20
    spark.sql("CACHE TABLE t")
    assert hive_bitmap.plan(spark, "t", "k = 3").code == "cached"
    spark.sql("UNCACHE TABLE t")


def test_a_plan_that_memory_is_too_short_for_loses_no_block(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS INT) k, id FROM range(0, 1000, 1, 4)")
    hive_bitmap.build(spark, "t", ["k"])
    with under(spark, {"hive_bitmap.stores.memory": "0"}):
        hive_bitmap.write_offsets(spark, "t", "k = 3", str(tmp_path / "offsets"))
        assert len((tmp_path / "offsets").read_text().splitlines()) == 4
        assert hive_bitmap.count(spark, "t", "k = 3") == hive_bitmap.scan(spark, "t", "k = 3").count() == 20
        assert hive_bitmap.plan(spark, "t", "k = 3").strategy in ("full scan", "rows", "blocks", "files")


SETTINGS = [
    ("sql.session.timeZone", "Asia/Tokyo", "ts < TIMESTAMP '1970-01-02 00:00:00'"),
    ("sql.session.timeZone", "America/New_York", "ts = TIMESTAMP '1970-01-01 18:00:00'"),
    ("sql.ansi.enabled", "false", "1 / 0 = 1 OR k = 3"),
    ("sql.ansi.enabled", "false", "cast(s AS int) = 1 OR k = 3"),
    ("sql.parser.escapedStringLiterals", "true", "s = 'a\\n1'"),
    ("sql.caseSensitive", "true", "k = 3"),
]


@pytest.mark.parametrize(
    ("name", "value", "predicate"),
    contract(SETTINGS, ("sql.session.timeZone", "America/New_York", "ts = TIMESTAMP '1970-01-01 18:00:00'")),
)
def test_a_predicate_means_what_the_settings_of_its_session_say(
    spark: SparkSession, database: str, tmp_path: Path, name: str, value: str, predicate: str
) -> None:
    """Spark parses literals under the settings of the session that is active in the thread of the JVM."""
    spark.sql("CREATE TABLE t (k INT, ts TIMESTAMP, s STRING) USING parquet")
    for ids in ("0, 20", "20, 100"):
        spark.sql(
            f"INSERT INTO t SELECT /*+ COALESCE(1) */ id, timestamp_seconds(id * 3600), 'a\\n1' FROM range({ids})"
        )
    hive_bitmap.build(spark, "t", ["k", "ts", "s"])
    other = spark.newSession()
    other.catalog.setCurrentDatabase(database)
    other.conf.set(f"spark.{name}", value)
    spark.table("t").count()  # it is the active one
    expected = other.table("t").where(predicate).count()
    assert hive_bitmap.count(other, "t", predicate) == expected
    assert hive_bitmap.scan(other, "t", predicate).count() == expected
    assert sum(hive_bitmap.group_counts(other, "t", predicate, ["k"])["count"].to_pylist()) == expected
    hive_bitmap.write_offsets(other, "t", predicate, str(tmp_path / "offsets"))
    files = {row[0] for row in other.table("t").where(predicate).selectExpr("_metadata.file_path").collect()}
    listed = {line.split("\x01")[0] for line in (tmp_path / "offsets").read_text().splitlines()}
    assert {file.replace("file://", "file:") for file in files} <= listed


@pytest.mark.contract
def test_what_the_rule_says_of_another_table_is_not_the_plan(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """A subquery finds nothing, by an index of its own table; every row of `t` satisfies the predicate."""
    spark.sql("CREATE TABLE t (k INT, s STRING) USING parquet")
    spark.sql("INSERT INTO t SELECT id % 10, id FROM range(1000)")
    spark.sql("CREATE TABLE c (k INT, s CHAR(5)) USING parquet")
    spark.sql("INSERT INTO c SELECT id % 10, 'a' FROM range(1000)")
    spark.sql("CREATE TABLE u USING parquet AS SELECT CAST(id AS INT) k FROM range(1000)")
    spark.sql("CREATE TABLE v USING parquet AS SELECT CAST(id AS INT) k, 'n' name FROM range(10)")
    hive_bitmap.build(spark, "u", ["k"])
    nothing = "NOT EXISTS (SELECT u.k FROM u JOIN v ON u.k = v.k WHERE v.name = 'nix')"
    spark.sql("CREATE TEMP VIEW two AS SELECT * FROM VALUES (1), (2) AS two(k)")
    with under(spark, {"hive_bitmap.strategy": "blocks", "hive_bitmap.planning_seconds": "60"}):
        for table, predicate in (("t", nothing), ("t", f"_metadata.file_size > 0 AND {nothing}"), ("c", nothing)):
            hive_bitmap.write_offsets(spark, table, predicate, str(tmp_path / "offsets"))
            assert (tmp_path / "offsets").read_text(), (table, predicate)
            assert hive_bitmap.count(spark, table, predicate) == 1000
        spark.table("t").cache().count()
        hive_bitmap.write_offsets(spark, "t", nothing, str(tmp_path / "offsets"))
        assert (tmp_path / "offsets").read_text()
        spark.table("t").unpersist()
        assert "no row" not in hive_bitmap.plan(spark, "two").reason and hive_bitmap.count(spark, "two") == 2
        plan = hive_bitmap.plan(spark, "t", "_metadata.file_size > 0 AND NOT EXISTS (SELECT 1 FROM u WHERE k > 1000)")
        assert plan.table == "t" and plan.strategy == "full scan"
    spark.sql("DROP VIEW two")


@pytest.mark.parametrize(
    "how", [pytest.param("USING parquet", marks=pytest.mark.contract), "USING orc", "STORED AS PARQUET"]
)
def test_a_table_with_a_padded_column(spark: SparkSession, database: str, tmp_path: Path, how: str) -> None:
    spark.sql(f"CREATE TABLE c (k INT, s CHAR(5)) {how}")
    spark.sql("INSERT INTO c SELECT id % 10, 'x' FROM range(1000)")
    hive_bitmap.build(spark, "c", ["k", "s"])
    assert hive_bitmap.plan(spark, "c", "k = 3").rows_selected == 100
    other = spark.newSession()
    other.sql(f"INSERT INTO {database}.c VALUES (3, 'y'), (3, 'z')")
    assert hive_bitmap.count(spark, "c", "k = 3") == 102
    assert hive_bitmap.count(spark, "c", "s = 'y'") == 1
    assert hive_bitmap.group_counts(spark, "c", "k = 3", ["s"]).sort_by("s").to_pydict() == {
        "s": ["x    ", "y    ", "z    "],
        "count": [100, 1, 1],
    }
    spark.sql("REFRESH TABLE c")
    for strategy in ("rows", "blocks", "files", "full scan"):
        assert hive_bitmap.scan(spark, "c", "k = 3", strategy=strategy).count() == 102
    assert hive_bitmap.count(spark, "c", "k = 3", strategy="full scan") == 102
    other.sql(f"INSERT OVERWRITE {database}.c VALUES (3, 'y'), (3, 'z')")
    assert hive_bitmap.count(spark, "c", "s = 'y'") == 1


@pytest.mark.contract
def test_other_frames_keep_the_listing_that_they_have(spark: SparkSession, database: str) -> None:
    """A function lists files for itself: a query that runs meanwhile reads one state of the table."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id AS INT) k, id FROM range(100)")
    hive_bitmap.build(spark, "t", ["k"])
    before = spark.table("t").where("k < 50")
    assert before.count() == 50
    other = spark.newSession()
    other.sql(f"INSERT INTO {database}.t VALUES (3, -1)")
    for _ in range(2):
        assert hive_bitmap.count(spark, "t", "k < 50") == 51
        assert hive_bitmap.plan(spark, "t", "k < 50").files.num_rows > len(before.inputFiles())
        assert before.count() == spark.table("t").where("k < 50").count() == 50
    spark.sql("INSERT INTO t VALUES (4, -2)")
    assert before.count() == hive_bitmap.count(spark, "t", "k < 50") == 52


def test_a_table_that_others_made_anew(spark: SparkSession, database: str) -> None:
    """What was read of the old one fails, as in plain Spark: nothing of the new one is read with its columns."""
    other = spark.newSession()
    other.sql(f"CREATE TABLE {database}.r (k INT, s STRING) USING parquet")
    other.sql(f"INSERT INTO {database}.r VALUES (1, 'a'), (2, 'b')")
    before = spark.table("r").where("s IS NOT NULL OR k > 0")
    assert before.count() == 2
    time.sleep(1.1)  # the metastore knows seconds
    other.sql(f"DROP TABLE {database}.r")
    other.sql(f"CREATE TABLE {database}.r (k INT, x DOUBLE) USING orc")
    other.sql(f"INSERT INTO {database}.r VALUES (7, 1.5), (8, 2.5), (9, 3.5)")
    assert hive_bitmap.count(spark, "r", "x > 2") == 2
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        before.collect()
    other.sql(f"ALTER TABLE {database}.r ADD COLUMNS (z INT)")
    assert hive_bitmap.count(spark, "r", "z IS NULL") == hive_bitmap.scan(spark, "r", "z IS NULL").count() == 3
