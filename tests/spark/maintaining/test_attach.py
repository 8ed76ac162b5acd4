"""A table that is renamed keeps its indexes: by a session with indexes enabled, or by `attach` afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation, roots
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.spark.building import publish
from hive_bitmap.spark.maintaining.attach import attach_renamed
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog
from tests import asking
from tests.spark.maintaining.life import (
    P,
    drop_partitions,
    external_table,
    generations,
    parted_table,
    rename_table,
    repair,
    require_right,
    require_verified,
    status,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.metastore.memory import MemoryMetastore

QUERIES = (
    "SELECT count(*) FROM new WHERE k = 3",
    "SELECT k, count(*) FROM new GROUP BY k",
    "SELECT * FROM new WHERE k = 3",
)


def managed(spark: SparkSession, using: str) -> None:
    """Table old of two partitions, whose folder a rename moves."""
    spark.sql(f"CREATE TABLE old (k int, id bigint, p int) USING {using} PARTITIONED BY (p)")
    spark.sql("INSERT INTO old SELECT CAST(id % 9 AS int), id, id % 2 FROM range(0, 400, 1, 1)")


def require_attached(spark: SparkSession, files: int) -> None:
    for query in QUERIES:
        asking.require_alike(spark, query, "", "rows", "blocks", "index only")
    assert asking.told(spark, QUERIES[1], "index only") == [("new", "answered")]
    assert (status(spark, "new").fresh, status(spark, "new").problem) == (files, "")
    assert [found.problems for found in hive_bitmap.verify(spark, "new")] == [()]
    assert hive_bitmap.rebuild(spark, "new")[0].files_read == 0
    with pytest.raises(NotFound):
        hive_bitmap.show(spark, "old")


@pytest.mark.contract
@pytest.mark.parametrize("using", ["parquet", "orc"])
def test_an_enabled_session_takes_them_along(spark: SparkSession, database: str, using: str) -> None:
    managed(spark, using)
    hive_bitmap.build(spark, "old", ["k"])
    hive_bitmap.enable(spark)
    spark.sql("ALTER TABLE old RENAME TO new")
    require_attached(spark, 2)
    root = Path(local_path(status(spark, "new").definition.root))
    assert {path.parent.name for path in root.parent.glob("*/_index.json")} == {root.name}  # the old one is deleted
    spark.table(f"{database}.{database}__new_k__").createOrReplaceTempView("shards")
    assert spark.sql("SELECT count(*) FROM shards WHERE _bucketname LIKE '%/old/%'").collect()[0][0] == 0


@pytest.mark.parametrize(
    "rename",
    [
        "ALTER TABLE IDENTIFIER('old') RENAME TO new",
        "ALTER TABLE ${which} RENAME TO new",
        "BEGIN ALTER TABLE old RENAME TO new; END",
    ],
)
def test_it_does_not_matter_how_the_table_is_named(spark: SparkSession, database: str, rename: str) -> None:
    managed(spark, "parquet")
    hive_bitmap.build(spark, "old", ["k"])
    hive_bitmap.enable(spark)
    with asking.under(spark, {"which": "old", "spark.sql.scripting.enabled": "true"}):
        spark.sql(rename)
    require_attached(spark, 2)


@pytest.mark.parametrize("type", [pytest.param("BITMAP", marks=pytest.mark.contract), "COMPACT"])
def test_attach_reads_no_file_of_a_table_that_others_renamed(spark: SparkSession, database: str, type: str) -> None:
    managed(spark, "parquet")
    hive_bitmap.build(spark, "old", ["k"], type=type)
    spark.sql("ALTER TABLE old RENAME TO new")
    [left] = catalog.find_even_if_dropped(spark, "old")[1]
    assert "hive-bitmap attach NEW --from" in left.problem
    [report] = hive_bitmap.attach(spark, "new", "old")
    assert (report.files_read, report.base_files, report.unindexed) == (0, 2, ())
    assert hive_bitmap.verify(spark, "new")[0].problems == ()
    asking.require_alike(spark, QUERIES[0], "", "blocks")
    with pytest.raises(NotFound):
        hive_bitmap.attach(spark, "new", "old")


@pytest.mark.contract
def test_an_index_of_a_table_that_stays_in_its_folder_stays_too(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    parted_table(spark, tmp_path / "t", 3)
    hive_bitmap.build(spark, "parted", ["k"], where="p < 3", index_table="mine", properties={"team": "ops"})
    before, shards = status(spark, "parted"), generations(spark, database)
    spark.sql("ALTER TABLE parted RENAME TO new")
    [report] = hive_bitmap.attach(spark, "new", f"{database}.parted")
    assert (report.files_read, report.shards_kept) == (0, 1)
    after = status(spark, "new")
    assert (after.definition.root, generations(spark, database)) == (before.definition.root, shards)
    assert (after.definition.index_table, after.definition.where) == ("mine", before.definition.where)
    assert (after.fresh, after.definition.properties) == (4, (("team", "ops"),))
    require_right(spark, "new")
    spark.sql("DROP TABLE new")


def test_a_file_that_is_another_one_is_indexed_again(memory: SparkSession, tmp_path: Path) -> None:
    parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, "parted", ["k"])
    rename_table(memory, "parted", "new")
    write(tmp_path / "t" / "p=1", 1, first=1)
    write(tmp_path / "t" / "p=2", 1, first=7)
    [report] = hive_bitmap.attach(memory, "new", "parted")
    assert report.files_read == 2
    require_verified(memory, "new")
    assert hive_bitmap.verify(memory, "new")[0].problems == ()


def test_what_is_refused(memory: SparkSession, tmp_path: Path) -> None:
    parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, "parted", ["k"])
    external_table(memory, "other", tmp_path / "o", [Column("k", "string")])
    with pytest.raises(Unsupported, match="still exists"):
        hive_bitmap.attach(memory, "other", "parted")
    rename_table(memory, "parted", "new")
    with pytest.raises(Unsupported, match="index k is on k int"):
        hive_bitmap.attach(memory, "other", "parted")
    with pytest.raises(NotFound):
        hive_bitmap.attach(memory, "nowhere", "parted")
    write(tmp_path / "a" / "p=1")
    external_table(memory, "another", tmp_path / "a", partition_columns=P)
    repair(memory, "another")
    with pytest.raises(Unsupported, match="is covered by index k: it is another table"):
        hive_bitmap.attach(memory, "another", "parted")
    hive_bitmap.attach(memory, "new", "parted")
    require_verified(memory, "new")
    assert len(generations(memory, "db")) == 1


@pytest.mark.parametrize("attach", [attach_renamed, hive_bitmap.attach])
def test_an_index_that_cannot_be_attached_keeps_no_other_from_it(
    memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path, attach: Callable[..., object]
) -> None:
    """One is another user's, and one is on a column that the table has no more."""
    parted_table(memory, tmp_path / "t", 2)
    for names in (["k"], ["id"], [["k", "id"]]):
        hive_bitmap.build(memory, "parted", names)
    in_memory.give("db", "db__parted_k_id__", owner="bob")
    in_memory.give("db", "parted", columns=(Column("k", "int"), Column("other", "bigint")))
    rename_table(memory, "parted", "new")
    problems = "index id is on id bigint.*; .*index table .*belongs to bob.*; all other indexes have been attached"
    with pytest.raises(Unsupported, match=problems):
        attach(memory, "new", "parted")
    assert (status(memory, "new").definition.name, status(memory, "new").fresh) == ("k", 4)
    require_verified(memory, "new")
    assert [one.definition.name for one in hive_bitmap.show(memory, "parted")] == ["id", "k_id"]


def test_a_renamed_table_without_a_covered_file_is_no_other_table(memory: SparkSession, tmp_path: Path) -> None:
    """All of its partitions were replaced before Spark renamed it."""
    parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, "parted", ["k"])
    drop_partitions(memory, "parted", 1, 2)
    write(tmp_path / "t" / "p=7", 3, first=10)
    repair(memory, "parted")
    drop_partitions(memory, "parted", 1, 2)
    rename_table(memory, "parted", "new")
    attach_renamed(memory, "new", "parted")
    assert (status(memory, "new").fresh, status(memory, "new").problem) == (3, "")
    require_verified(memory, "new")
    with pytest.raises(NotFound):
        hive_bitmap.show(memory, "parted")


def test_a_table_that_was_overwritten_keeps_its_indexes_when_it_is_renamed(spark: SparkSession, database: str) -> None:
    """No file is one that the index knows, as in another table; but Spark has renamed this one."""
    hive_bitmap.enable(spark)
    managed(spark, "parquet")
    hive_bitmap.build(spark, "old", ["k"])
    hive_bitmap.build(spark, "old", ["id"])
    spark.sql("INSERT OVERWRITE old SELECT CAST(id % 9 AS int), id, id % 2 FROM range(400, 600, 1, 1)")
    spark.sql("ALTER TABLE old RENAME TO new")
    assert [(one.definition.name, one.fresh, one.problem) for one in hive_bitmap.show(spark, "new")] == [
        ("id", 2, ""),
        ("k", 2, ""),
    ]
    require_right(spark, "new")
    require_verified(spark, "new")
    with pytest.raises(NotFound):
        hive_bitmap.show(spark, "old")


def test_an_attachment_that_was_killed_is_finished_by_the_next(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed(spark, "parquet")
    hive_bitmap.build(spark, "old", ["k"])
    spark.sql("ALTER TABLE old RENAME TO new")
    with monkeypatch.context() as killed:
        killed.setattr("hive_bitmap.spark.building.publish.drop", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            hive_bitmap.attach(spark, "new", "old")
    assert hive_bitmap.attach(spark, "new", "old") == []
    require_attached(spark, 2)


@pytest.mark.parametrize("killed_in", ["set_properties", "rename", "drop_remains"])
@pytest.mark.parametrize("after", [False, True])
def test_an_attachment_in_place_that_was_killed_is_finished_by_the_next(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str, after: bool
) -> None:
    parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, "parted", ["k"])
    shards = generations(memory, "db")
    rename_table(memory, "parted", "new")
    module = publish if killed_in == "drop_remains" else alter_table
    done = getattr(module, killed_in)

    def kill(*given: Any, **named: Any) -> None:
        if after:
            done(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(module, killed_in, kill)
        hive_bitmap.attach(memory, "new", "parted")
    if killed_in == "set_properties" and after:  # all is done but the report
        assert status(memory, "new").problem == ""
    else:
        assert hive_bitmap.attach(memory, "new", "parted")[0].files_read == 0
    require_verified(memory, "new")
    assert (status(memory, "new").problem, generations(memory, "db")) == ("", shards)


def test_generations_of_the_former_name_are_deleted_by_those_of_the_new_name(
    memory: SparkSession, tmp_path: Path
) -> None:
    parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, "parted", ["k"])
    rename_table(memory, "parted", "new")
    hive_bitmap.attach(memory, "new", "parted")
    former = set(generations(memory, "db"))
    hive_bitmap.rebuild(memory, "new", full=True)
    assert len(hive_bitmap.clean(memory, grace_seconds=0)) == 1
    assert former.isdisjoint(generations(memory, "db"))
    require_verified(memory, "new")
    root = Path(local_path(status(memory, "new").definition.root))
    hive_bitmap.drop(memory, "new", "k")
    assert not root.exists()


def test_a_root_that_names_another_table_is_not_taken_over(memory: SparkSession, tmp_path: Path) -> None:
    """The properties of an index are copied; the marker in its folder is not."""
    parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, "parted", ["k"])
    definition = status(memory, "parted").definition
    written = generation.definition_of(next(iter(generation.all_below(definition.root))))
    copied = replace(definition, table="mine")
    assert written is not None and roots.has_built(definition, written)
    assert not roots.has_built(copied, written)
    with pytest.raises(Unsupported, match="names index"):
        roots.rename(replace(definition, table="other"), copied, "")


def move_partition(spark: SparkSession, table: str, value: str, folder: Path) -> None:
    """Point a partition at another folder, as ALTER TABLE .. SET LOCATION does."""
    alter_table.change(spark, metastore.describe(spark, table), moved={(value,): f"file:{folder}"})
    catalog.clear_caches()


@pytest.mark.parametrize("refreshed", [True, False])
def test_rows_of_files_that_partitions_had_before_are_not_taken_for_others(
    memory: SparkSession, tmp_path: Path, refreshed: bool
) -> None:
    """Partition 1 moves to the folder of partition 2, whose files have the same names, before the rename."""
    folder = tmp_path / "t"
    parted_table(memory, folder, 4)
    write(folder / "p=1", 2, first=5)
    for number in (0, 1):
        (folder / "p=1" / f"{number}.parquet").unlink()
        (folder / "p=1" / f"{number + 5}.parquet").rename(folder / "p=1" / f"{number}.parquet")
    hive_bitmap.build(memory, "parted", ["k"])
    move_partition(memory, "parted", "1", folder / "p=2")
    if refreshed:
        hive_bitmap.refresh(memory, "parted")
    rename_table(memory, "parted", "new")
    [report] = hive_bitmap.attach(memory, "new", "parted")
    assert report.files_read == (0 if refreshed else 2)
    require_verified(memory, "new")


def test_a_partition_that_was_moved_to_the_place_of_a_dropped_one(memory: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    parted_table(memory, folder, 2)
    write(folder / "p=1", 2, first=5)
    hive_bitmap.build(memory, "parted", ["k"])
    drop_partitions(memory, "parted", 2)
    (folder / "p=2").rename(tmp_path / "away")
    (folder / "p=1").rename(folder / "p=2")
    move_partition(memory, "parted", "1", folder / "p=2")
    rename_table(memory, "parted", "new")
    hive_bitmap.attach(memory, "new", "parted")
    require_verified(memory, "new")
