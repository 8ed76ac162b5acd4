"""Tests of changes that others make to index and base tables: answers stay right, and the index can be repaired."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import InvalidProperty, NotFound, Unsupported
from hive_bitmap.spark.metastore import alter_table
from hive_bitmap.spark.registry import catalog, locations
from tests.spark.maintaining.life import (
    drop_table,
    flat_table,
    generations,
    index_table,
    live,
    parted_table,
    rename_table,
    require_right,
    require_verified,
    status,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYMLINKS = (
    "STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat' "
    "OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'"
)


def test_a_dropped_base_table(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k", "id"])
    drop_table(memory, flat)
    assert [(one.definition.name, "is gone" in one.problem) for one in hive_bitmap.show(memory, flat)] == [
        ("id", True),
        ("k", True),
    ]
    assert hive_bitmap.drop(memory, flat, "k") and len(hive_bitmap.show(memory, flat)) == 1
    hive_bitmap.drop_table(memory, flat)
    with pytest.raises(NotFound, match="no table 'flat'"):
        hive_bitmap.show(memory, flat)
    assert generations(memory, "db") == []


def test_a_renamed_base_table(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    rename_table(memory, flat, "other")
    assert hive_bitmap.show(memory, "other") == []
    assert "is gone" in status(memory, flat).problem
    require_verified(memory, "other")
    rename_table(memory, "other", flat)
    require_verified(memory, flat)
    hive_bitmap.rebuild(memory, flat)
    assert (status(memory, flat).problem, status(memory, flat).fresh) == ("", 2)


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        pytest.param(
            "(k string, id bigint) STORED AS PARQUET", "k int, but in table .* it is string", marks=pytest.mark.contract
        ),
        ("(id bigint) STORED AS PARQUET", "k int, but in table .* it is gone"),
        ("(k int, id bigint) PARTITIONED BY (q int) STORED AS PARQUET", "partitioned by q now"),
        (f"(k int, id bigint) {SYMLINKS}", "stored as SymlinkText"),
    ],
)
def test_a_table_made_anew(spark: SparkSession, database: str, tmp_path: Path, ddl: str, said: str) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    spark.sql("DROP TABLE flat")
    shutil.rmtree(tmp_path / "t")
    spark.sql(f"CREATE EXTERNAL TABLE flat {ddl} LOCATION '{tmp_path / 't'}'")
    if SYMLINKS not in ddl:
        with pytest.raises(Unsupported, match=said):
            hive_bitmap.rebuild(spark, flat)
        values = "(3)" if ddl.startswith("(id") else "('3', 1)" if "string" in ddl else "(3, 1, 1)"
        spark.sql(f"INSERT INTO flat VALUES {values}")
        condition = "id = 3" if ddl.startswith("(id") else "k = 3"
        assert hive_bitmap.count(spark, flat, condition) == 1
        assert hive_bitmap.scan(spark, flat, condition).count() == 1
    assert re.search(said, status(spark, flat).problem)
    assert hive_bitmap.drop(spark, flat, "k") and hive_bitmap.show(spark, flat) == []


@pytest.mark.contract
def test_deleted_files_and_files_of_strangers(spark: SparkSession, database: str, tmp_path: Path) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    spark.sql(f"INSERT INTO {index_table(spark, flat)} SELECT * FROM {index_table(spark, flat)}")
    require_right(spark, flat)
    assert "no build wrote" in status(spark, flat).problem
    hive_bitmap.rebuild(spark, flat)
    assert status(spark, flat).problem == ""
    spark.catalog.refreshTable(index_table(spark, flat))
    assert spark.table(index_table(spark, flat)).count() == status(spark, flat).index_rows
    next(Path(local_path(live(spark, flat)[0])).glob("part-*")).unlink()
    assert "missing" in status(spark, flat).problem
    require_right(spark, flat)
    hive_bitmap.rebuild(spark, flat)
    shutil.rmtree(local_path(live(spark, flat)[0]))
    assert "missing" in status(spark, flat).problem
    require_right(spark, flat)
    hive_bitmap.rebuild(spark, flat)
    assert (status(spark, flat).problem, status(spark, flat).fresh) == ("", 2)


def test_an_overwritten_index_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    parted = parted_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, parted, ["k"])
    name = index_table(spark, parted)
    columns = "k, _bucketname, _offset, _bitmaps, _gap_lengths, p"
    spark.sql(f"CREATE TABLE four STORED AS PARQUET AS SELECT {columns} FROM {name} WHERE k = 4")
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (hive_bitmap_segment = 0) SELECT {columns} FROM four")
    require_right(spark, parted)
    assert status(spark, parted).problem
    hive_bitmap.rebuild(spark, parted)
    require_right(spark, parted)
    assert (status(spark, parted).problem, status(spark, parted).fresh) == ("", 8)


EDITS: dict[str, dict[str, str]] = {
    "gone": {},
    "others": {"hive_bitmap.columns": '[["id","bigint"]]'},
    "nonsense": {"hive_bitmap.columns": "nonsense"},
    "encoding": {"hive_bitmap.encoding": "ewah"},
    "table": {"hive_bitmap.table": "nowhere"},
    "type": {"hive_bitmap.type": "COMPACT"},
    "where": {"hive_bitmap.where": "k = 1"},
}


def edit_properties(spark: SparkSession, table: str, edit: str) -> None:
    """Change the properties of the only index of a table, as other programs can."""
    [index] = catalog.table_and_indexes(spark, table)[1]
    alter_table.set_properties(spark, index.table, EDITS[edit], [] if EDITS[edit] else ["hive_bitmap.columns"])
    catalog.clear_caches()


@pytest.mark.parametrize("edit", EDITS)
def test_edited_properties_are_told_and_written_again(memory: SparkSession, tmp_path: Path, edit: str) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"], comment="mine")
    before = status(memory, flat)
    edit_properties(memory, flat, edit)
    [index] = catalog.table_and_indexes(memory, flat)[1]
    assert "are not what a build wrote" in status(memory, flat).problem == index.why_not
    hive_bitmap.rebuild(memory, flat)
    assert status(memory, flat).definition == before.definition and status(memory, flat).problem == ""
    require_verified(memory, flat)


@pytest.mark.contract
@pytest.mark.parametrize("edit", ["others", "encoding"])
def test_an_index_with_edited_properties_answers_nothing(
    spark: SparkSession, database: str, tmp_path: Path, edit: str
) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    edit_properties(spark, flat, edit)
    require_right(spark, flat)
    assert "are not what a build wrote" in hive_bitmap.plan(spark, flat, "k = 3").reason
    hive_bitmap.rebuild(spark, flat)
    assert hive_bitmap.plan(spark, flat, "k = 3", count=True).strategy == "index only"


def test_an_encoding_that_is_not_that_of_the_shards(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """The two encodings have the same columns, and here the bitmap of one row among 144 has the same size in both."""
    keys = pa.table({"k": pa.array([*range(100, 199), 3, *range(200, 244)], pa.int32()), "id": pa.array(range(144))})
    (tmp_path / "t").mkdir()
    pq.write_table(keys, tmp_path / "t" / "0.parquet")
    spark.sql(f"CREATE EXTERNAL TABLE flat (k int, id bigint) STORED AS PARQUET LOCATION '{tmp_path / 't'}'")
    hive_bitmap.build(spark, "flat", ["k"], encoding="roaring")
    spark.sql(f"ALTER TABLE {index_table(spark, 'flat')} SET TBLPROPERTIES ('hive_bitmap.encoding'='plain')")
    for strategy in ("rows", "files"):
        with contextlib.suppress(Unsupported):
            assert hive_bitmap.scan(spark, "flat", "k = 3", strategy=strategy).count() == 1
    require_right(spark, "flat")
    assert "are not what a build wrote" in status(spark, "flat").problem


@pytest.mark.contract
def test_an_index_table_that_points_at_the_generation_of_another(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"], encoding="roaring")
    hive_bitmap.build(spark, flat, ["k"], name="other", encoding="plain")
    [first, second] = catalog.table_and_indexes(spark, flat)[1]
    [own], [others] = (catalog.segments(spark, one) for one in (first, second))
    alter_table.change(spark, first.table, moved={("0",): others})
    require_right(spark, flat)
    assert [("not a segment of this index" in one.problem, one.unindexed) for one in hive_bitmap.show(spark, flat)] == [
        (True, 2),
        (False, 0),
    ]
    hive_bitmap.rebuild(spark, flat)
    assert [(one.problem, one.fresh) for one in hive_bitmap.show(spark, flat)] == [("", 2)] * 2
    assert Path(local_path(others)).exists()
    [unused] = hive_bitmap.clean(spark, flat, grace_seconds=0)
    assert unused.path == own and hive_bitmap.clean(spark, grace_seconds=0) == []
    assert Path(local_path(others)).exists()
    require_right(spark, flat)


def test_a_dropped_index_table_leaves_an_orphan(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    [folder] = live(memory, flat)
    stranger = Path(local_path(locations.default_folder(memory, "db")), "mine", "generation-20200101T000000-00000000")
    stranger.mkdir(parents=True)
    (stranger / "part-0.parquet").write_text("of another program")
    drop_table(memory, index_table(memory, flat))
    require_verified(memory, flat)
    assert hive_bitmap.show(memory, flat) == []
    hive_bitmap.build(memory, flat, ["k"])
    assert status(memory, flat).fresh == 2
    hive_bitmap.drop(memory, flat, "k")
    assert generations(memory, "db") == sorted([folder, f"file:{stranger}"]), "a clean may take the first of them"


def test_an_index_that_hive_made_hides_no_table(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """Spark cannot describe the tables of Hive's own indexes, whose names look like ours, and fails the whole call."""
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    jvm, session = spark._jvm, spark._jsparkSession
    assert jvm is not None
    client = session.sharedState().externalCatalog().unwrapped().client()
    jvm.java.lang.System.setProperty("spark.testing", "true")  # without it runSqlHive refuses to run
    try:
        client.runSqlHive(f"CREATE INDEX own ON TABLE {database}.flat (k) AS 'COMPACT' WITH DEFERRED REBUILD")
        assert f"{database}__flat_own__" in [table.tableName for table in spark.sql("SHOW TABLES").collect()]
        assert [one.definition.name for one in hive_bitmap.show(spark, flat)] == ["k"]
        require_right(spark, flat)
    finally:
        client.runSqlHive(f"DROP INDEX IF EXISTS own ON {database}.flat")
        jvm.java.lang.System.clearProperty("spark.testing")


def test_a_location_that_is_no_path() -> None:
    with pytest.raises(InvalidProperty, match="is not a location"):
        locations.root_at("a\0b")
