"""What the functions of Python are about: the table as Spark sees it, with the files that are there now."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        "scan": hive_bitmap.scan(spark, "t", predicate).count(),
        "rows": len(hive_bitmap.scan(spark, "t", predicate, strategy="rows").collect()),
        "count": hive_bitmap.count(spark, "t", predicate),
        "group_counts": sum(hive_bitmap.group_counts(spark, "t", predicate, ["k"])["count"].to_pylist()),
        "files": len(hive_bitmap.plan(spark, "t", predicate).files),
        "files with offsets": len((folder / "offsets").read_text().splitlines()),
    }


@pytest.mark.parametrize("format", WRITE)
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
        assert set(list(told.values())[:4]) == {expected}, told
        assert told["files"] == told["files with offsets"] == files
        assert before.count() == expected  # the session has one listing of a table
    (home / "a").unlink()
    assert set(list(answers(spark, "k = 3", tmp_path).values())[:4]) == {7}
    assert before.count() == 7


def test_questions_that_are_no_scan_of_an_indexed_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """Each has a plan that says so, and the right answers."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS INT) k, id FROM range(1000)")
    spark.sql("CREATE TABLE plain USING parquet AS SELECT 1 AS k")
    spark.sql("CREATE VIEW v AS SELECT * FROM t WHERE id < 500")
    hive_bitmap.build(spark, "t", ["k"])
    for table, predicate, strategy, words in (
        ("t", "FALSE", "files", "no row satisfies"),
        ("t", "k = 3 AND k = 4", "files", "no row satisfies"),
        ("t", None, "full scan", "no index has a column that the predicate tests"),
        ("t", "id = 3", "full scan", "no index has a column that the predicate tests"),
        ("plain", "k = 1", "full scan", "the table has no index"),
        ("t", "rand() < 2", "full scan", "no index has a column that the predicate tests"),
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


@pytest.mark.parametrize("ask", [hive_bitmap.scan, hive_bitmap.plan, hive_bitmap.count, hive_bitmap.group_counts])
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
