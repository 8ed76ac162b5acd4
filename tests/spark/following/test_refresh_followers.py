"""A refresh of indexes that follow a table: its outcome where other processes build, write, rename and forge."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation, generation_names, refresh_record
from hive_bitmap.core.index.definition import Definition, to_properties
from hive_bitmap.errors import HiveBitmapError, Unsupported
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.following import table_refresh
from hive_bitmap.spark.following.refresh_queue import Outcome, RefreshKey
from hive_bitmap.spark.metastore import alter_table
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import drop_table, flat_table, parted_table, require_verified, status, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.metastore.memory import MemoryMetastore

FLAT, PARTED = RefreshKey("db", "flat", 1.0), RefreshKey("db", "parted", 1.0)


def follow(spark: SparkSession, table: str, **options: Any) -> Definition:
    """Build an index that follows its table; return its definition."""
    given = {"auto_refresh": True, "refresh_interval": "1 second", **options}
    [report] = hive_bitmap.build(spark, table, ["k"], **given)
    return report.definition


@pytest.fixture
def flat(memory: SparkSession, tmp_path: Path) -> Definition:
    """The index of a table whose folder is `t`."""
    return follow(memory, flat_table(memory, tmp_path / "t"))


def test_new_files_are_indexed_and_that_is_recorded(memory: SparkSession, flat: Definition, tmp_path: Path) -> None:
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.IN_VAIN
    write(tmp_path / "t", 1, 5)
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.CHANGED
    done = status(memory, "flat").last_refresh
    assert done is not None and (done.error, done.files) == ("", 1)
    assert status(memory, "flat").unindexed == 0
    require_verified(memory, "flat")


def test_only_indexes_of_the_interval_that_follow_are_refreshed(memory: SparkSession, tmp_path: Path) -> None:
    table = flat_table(memory, tmp_path / "t")
    follow(memory, table, name="often")
    follow(memory, table, name="rarely", refresh_interval="1 hour")
    follow(memory, table, name="never", auto_refresh=False)
    write(tmp_path / "t", 1, 5)
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.CHANGED
    unindexed = {one.definition.name: one.unindexed for one in hive_bitmap.show(memory, table)}
    assert unindexed == {"often": 0, "rarely": 1, "never": 1}
    assert table_refresh.refresh_followers(memory, RefreshKey("db", table, 9.0), None) is Outcome.IN_VAIN


def test_an_index_that_no_longer_fits_keeps_no_other_from_following(
    memory: SparkSession, in_memory: MemoryMetastore, flat: Definition, tmp_path: Path
) -> None:
    hive_bitmap.build(memory, "flat", ["id"], auto_refresh=True, refresh_interval="1 second")
    in_memory.give("db", "flat", columns=(Column("k", "bigint"), Column("id", "bigint")))
    write(tmp_path / "t", 1, 5)
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.CHANGED
    statuses = {one.definition.name: one for one in hive_bitmap.show(memory, "flat")}
    shown = {name: one.last_refresh for name, one in statuses.items()}
    assert statuses["id"].unindexed == 0 and shown["id"] is not None and not shown["id"].error
    assert shown["k"] is not None and "it is bigint" in shown["k"].error
    hive_bitmap.drop(memory, "flat", "id")
    with pytest.raises(Unsupported, match="it is bigint"):
        table_refresh.refresh_followers(memory, FLAT, None)


def test_only_partitions_that_were_written_are_looked_at(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 3)
    follow(memory, table)
    for p in (1, 2):
        write(tmp_path / "t" / f"p={p}", 1, 5)
    assert table_refresh.refresh_followers(memory, PARTED, []) is Outcome.IN_VAIN
    assert table_refresh.refresh_followers(memory, PARTED, [(("p", "1"),)]) is Outcome.CHANGED
    assert [one.unindexed for one in status(memory, table).partitions] == [0, 1, 0]


def test_partitions_that_the_metastore_writes_in_another_way(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    follow(memory, table)
    write(tmp_path / "t" / "p=1", 1, 5)
    assert table_refresh.refresh_followers(memory, PARTED, [(("p", "01"),)]) is Outcome.CHANGED
    assert status(memory, table).unindexed == 0
    require_verified(memory, table)


def test_a_build_of_another_process_is_waited_for(memory: SparkSession, flat: Definition) -> None:
    begun = f"{flat.root}/{generation_names.new_name()}"
    generation.start(begun, None, flat)
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.TOO_EARLY
    old = begun.replace("generation-2", "generation-1")
    shutil.move(begun.removeprefix("file:"), old.removeprefix("file:"))
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.IN_VAIN


def test_an_index_or_a_table_that_is_gone_is_nothing_to_do(memory: SparkSession, flat: Definition) -> None:
    hive_bitmap.drop(memory, "flat", "k")
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.IN_VAIN
    drop_table(memory, "flat")
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.IN_VAIN


@pytest.mark.parametrize("how", ["dropped", "renamed"])
def test_an_index_that_goes_or_is_renamed_meanwhile_is_no_failure(
    memory: SparkSession, flat: Definition, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def meanwhile(*arguments: Any, **options: Any) -> list[BuildReport]:
        if how == "dropped":
            hive_bitmap.drop(memory, "flat", "k")
        else:
            hive_bitmap.rename(memory, "flat", "k", "m")
        return hive_bitmap.refresh(*arguments, **options)

    monkeypatch.setattr(table_refresh, "refresh", meanwhile)
    outcome = table_refresh.refresh_followers(memory, FLAT, None)
    assert outcome is (Outcome.IN_VAIN if how == "dropped" else Outcome.TOO_EARLY)
    assert all(one.last_refresh is None for one in hive_bitmap.show(memory, "flat"))


def test_a_table_that_changes_in_each_pass_is_not_settled(
    memory: SparkSession, flat: Definition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def meanwhile(*arguments: Any, **options: Any) -> list[BuildReport]:
        written.append(1)
        write(tmp_path / "t", 1, 5 + len(written))
        return hive_bitmap.refresh(*arguments, **options)

    monkeypatch.setattr(table_refresh, "refresh", meanwhile)
    assert table_refresh.refresh_followers(memory, FLAT, None) is Outcome.UNSETTLED
    assert len(written) == table_refresh.MOST_PASSES


def test_a_refresh_that_fails_is_recorded_and_raised(
    memory: SparkSession, flat: Definition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **options: Any) -> list[BuildReport]:
        raise OSError("no more")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="no more"):
        broken.setattr(table_refresh, "refresh", fails)
        table_refresh.refresh_followers(memory, FLAT, None)
    failed = status(memory, "flat").last_refresh
    assert failed is not None and (failed.error, failed.files) == ("no more", 0)


def test_a_folder_that_properties_name_gets_no_record(memory: SparkSession, flat: Definition, tmp_path: Path) -> None:
    """A forged index table of the owner of the base table is believed, and its root may be anybody's folder."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / refresh_record.NAME).write_text("somebody's")
    [index] = catalog.table_and_indexes(memory, "flat")[1]
    alter_table.set_properties(memory, index.table, to_properties(replace(flat, root=f"file:{theirs}")))
    catalog.clear_caches()
    write(tmp_path / "t", 1, 5)
    with pytest.raises(HiveBitmapError):
        table_refresh.refresh_followers(memory, FLAT, None)
    assert (theirs / refresh_record.NAME).read_text() == "somebody's"
    assert [one.name for one in theirs.iterdir()] == [refresh_record.NAME]


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    definition = Definition(name="i", database="db", table="t", columns=(), root=f"file:{tmp_path}")
    for content in ("", "{", "[]", '{"host": 1}', '{"host": "a", "pid": 1, "started": 1, "seconds": "x"}'):
        (tmp_path / refresh_record.NAME).write_text(content)
        assert refresh_record.read(definition) is None
