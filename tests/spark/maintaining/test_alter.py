"""Tests of altering an index: what takes effect at once, what with the next rebuild, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import AlreadyExists, InvalidProperty, NotFound
from hive_bitmap.spark.metastore import alter_table
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import (
    external_table,
    flat_table,
    index_table,
    live,
    parted_table,
    require_right,
    require_verified,
    status,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_rename(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    hive_bitmap.build(memory, flat, ["id"], index_table="mine")
    before = live(memory, flat)
    for name, error in (("ID", AlreadyExists), ("a b", InvalidProperty)):
        with pytest.raises(error):
            hive_bitmap.rename(memory, flat, "k", name)
    external_table(memory, "db__flat_taken__", tmp_path / "taken")
    with pytest.raises(AlreadyExists, match="is not an index table"):
        hive_bitmap.rename(memory, flat, "k", "taken")
    hive_bitmap.rename(memory, flat, "K", "Keys")
    hive_bitmap.rename(memory, flat, "id", "ids")
    found = [(one.definition.name, one.definition.index_table) for one in hive_bitmap.show(memory, flat)]
    assert found == [("ids", "mine"), ("keys", "db__flat_keys__")]
    assert live(memory, flat) == before, "queries that were planned read these"
    with pytest.raises(NotFound, match="known: ids, keys"):
        hive_bitmap.rename(memory, flat, "k", "x")
    require_verified(memory, flat)
    hive_bitmap.build(memory, flat, ["k"], name="k")
    roots = {one.definition.root for one in hive_bitmap.show(memory, flat)}
    assert len(roots) == 3, "the new k would share the folder of what was k before"
    hive_bitmap.drop(memory, flat, "k")
    require_verified(memory, flat)
    assert [one.fresh for one in hive_bitmap.show(memory, flat)] == [2, 2]


def test_a_rename_that_fails_changes_nothing(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    for create in (lambda: hive_bitmap.rename(memory, flat, "k", "x" * 300), lambda: long_index(memory, flat)):
        with pytest.raises(InvalidProperty, match="metastores keep 256: give the index a shorter name"):
            create()

    def refuse(*arguments: Any) -> None:
        raise OSError("the metastore says no")

    with monkeypatch.context() as broken:
        broken.setattr(alter_table, "rename", refuse)
        with pytest.raises(OSError, match="says no"):
            hive_bitmap.rename(memory, flat, "k", "keys")
    kept = status(memory, flat).definition
    assert (kept.name, kept.index_table) == ("k", "db__flat_k__")
    hive_bitmap.rename(memory, flat, "k", "keys")
    require_verified(memory, flat)


def long_index(spark: SparkSession, table: str) -> None:
    hive_bitmap.build(spark, table, ["id"], name="y" * 300)


@pytest.mark.contract
def test_a_disabled_index_is_not_used(spark: SparkSession, database: str, tmp_path: Path) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k"])
    hive_bitmap.set_properties(spark, flat, "k", {"Enabled": "FALSE", "comment": "it's off"})
    plan = hive_bitmap.plan(spark, flat, "k = 3", count=True)
    assert plan.strategy == "full scan" and "index k is not enabled" in str(plan)
    require_right(spark, flat)
    hive_bitmap.rebuild(spark, flat, full=True)
    assert not status(spark, flat).definition.enabled and status(spark, flat).definition.comment == "it's off"
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {index_table(spark, flat)}").where("col_name = 'Comment'").collect()
    assert [row.data_type for row in described] == ["it's off"]
    hive_bitmap.set_properties(spark, flat, "k", {"enabled": "true"})
    assert hive_bitmap.plan(spark, flat, "k = 3", count=True).strategy == "index only"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"enable": "false"}, r"unknown property 'enable'; did you mean 'enabled'\?"),
        ({"enabled": "yes"}, "known: true, false"),
        ({"comment": "x", "encoding": "rle"}, "unknown encoding 'rle'"),
        ({"compression": "lzo"}, "unknown compression"),
    ],
)
def test_unknown_properties_change_nothing(
    memory: SparkSession, tmp_path: Path, properties: dict[str, str], said: str
) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"], deferred=True)
    before = status(memory, flat).definition
    with pytest.raises(InvalidProperty, match=said):
        hive_bitmap.set_properties(memory, flat, "k", properties)
    assert status(memory, flat).definition == before


def test_properties_of_the_owner_are_kept_and_shown(spark: SparkSession, database: str, tmp_path: Path) -> None:
    flat = flat_table(spark, tmp_path / "t")
    run = f"CREATE INDEX i ON TABLE {flat} (k) AS 'BITMAP' IDXPROPERTIES ('team'='ops', 'Encoding'='roaring')"
    hive_bitmap.sql(spark, run)
    assert status(spark, flat).definition.properties == (("team", "ops"),)
    hive_bitmap.sql(spark, f"ALTER INDEX i ON {flat} SET IDXPROPERTIES ('level'='stripe', 'team'='web')")
    hive_bitmap.rebuild(spark, flat, full=True)
    assert status(spark, flat).definition.properties == (("team", "web"), ("level", "stripe"))
    [row] = hive_bitmap.sql(spark, "SHOW INDEX i").collect()
    assert row["Index Properties"] == "encoding=roaring,compression=zstd,enabled=true,team=web,level=stripe"
    assert hive_bitmap.count(spark, flat, "k = 3") == spark.table(flat).where("k = 3").count()


@pytest.mark.parametrize(
    ("make", "encodings"),
    [(flat_table, ("roaring", "plain", "gap")), pytest.param(parted_table, ("ewah",), marks=pytest.mark.contract)],
)
def test_another_encoding_comes_with_the_next_rebuild(
    spark: SparkSession, database: str, tmp_path: Path, make: Callable[..., str], encodings: tuple[str, ...]
) -> None:
    table = make(spark, tmp_path / "t")
    hive_bitmap.build(spark, table, ["k"])
    for encoding in encodings:
        before = status(spark, table).definition
        hive_bitmap.set_properties(spark, table, "k", {"encoding": encoding})
        assert status(spark, table).definition.encoding == before.encoding
        require_right(spark, table)
        hive_bitmap.rebuild(spark, table)
        after = status(spark, table)
        assert (after.definition.encoding, after.definition.next_encoding) == (encoding, "")
        assert (after.definition.index_table, after.problem) == (before.index_table, "")
        assert after.fresh > 0 == after.unindexed + after.stale
        require_right(spark, table)
        spark.catalog.refreshTable(index_table(spark, table))
        assert spark.table(index_table(spark, table)).count() == after.index_rows
        names = [column for column in spark.table(index_table(spark, table)).columns if column.startswith("_")]
        assert ("_gap_lengths" in names) == (encoding == "gap")
    assert len(catalog.indexes_of_database(spark, database)) == 1
