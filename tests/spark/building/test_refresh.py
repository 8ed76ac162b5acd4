"""A refresh reads what has changed, and nothing else; afterwards a rebuild has nothing left to do but dead rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import manifest
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.spark.building.preview import preview
from hive_bitmap.spark.metastore import alter_table
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import (
    drop_partitions,
    drop_table,
    flat_table,
    live,
    parted_table,
    repair,
    require_verified,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.building.build import BuildReport
    from tests.spark.metastore.memory import MemoryMetastore


def read(reports: list[BuildReport]) -> list[tuple[int, int, int]]:
    """Of each report: base files in scope, files read, partitions of which none was."""
    return [(report.base_files, report.files_read, report.untouched) for report in reports]


def require_done(spark: SparkSession, table: str) -> None:
    """Check that a rebuild would read nothing, that a refresh does nothing, and that the index is verified."""
    assert all(one.files == 0 for one in preview(spark, table))
    before = live(spark, table)
    assert all(report.files_read == 0 for report in hive_bitmap.refresh(spark, table))
    assert live(spark, table) == before
    require_verified(spark, table)
    for shown in hive_bitmap.show(spark, table):
        assert (shown.stale, shown.unindexed, shown.problem) == (0, 0, "")


def test_a_refresh_of_nothing_moves_nothing(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 5)
    hive_bitmap.build(memory, table, ["k", "id"])
    assert read(hive_bitmap.refresh(memory, table)) == [(10, 0, 5), (10, 0, 5)]
    require_done(memory, table)


def test_only_what_changed_is_read(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 4)
    hive_bitmap.build(memory, table, ["k"])
    write(tmp_path / "t" / "p=2", 1, 7)
    write(tmp_path / "t" / "p=9")
    repair(memory, table)
    assert read(hive_bitmap.refresh(memory, table)) == [(11, 3, 3)]
    require_done(memory, table)


def test_rows_of_files_that_are_gone_wait_and_are_told(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 6)
    hive_bitmap.build(memory, table, ["k"])
    before = live(memory, table)
    (tmp_path / "t" / "p=3" / "0.parquet").unlink()
    drop_partitions(memory, table, 4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hive_bitmap.core.segments.segment_plan.DEAD_SHARE", 0.5)
        assert read(hive_bitmap.refresh(memory, table)) == [(9, 0, 5)]
    [shown] = hive_bitmap.show(memory, table)
    assert live(memory, table) == before and (shown.gone, shown.dead_rows, shown.segments) == (3, 150, 1)
    require_verified(memory, table)
    [report] = hive_bitmap.refresh(memory, table)  # they are a quarter
    assert report.partitions_dropped == 1 and live(memory, table) != before
    assert (hive_bitmap.show(memory, table)[0].gone, hive_bitmap.show(memory, table)[0].dead_rows) == (0, 0)
    (tmp_path / "t" / "p=3" / "1.parquet").unlink()
    hive_bitmap.rebuild(memory, table)  # at once, however few
    assert hive_bitmap.show(memory, table)[0].gone == 0
    require_done(memory, table)


def test_each_index_is_refreshed_by_itself(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, table, ["k", "id"])
    write(tmp_path / "t" / "p=2", 1, 7)
    assert read(hive_bitmap.refresh(memory, table, ["ID"])) == [(5, 1, 1)]
    assert read(hive_bitmap.refresh(memory, table)) == [(5, 0, 2), (5, 1, 1)]
    require_done(memory, table)


def test_only_partitions_that_match_a_spec(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 4)
    hive_bitmap.build(memory, table, ["k"])
    for p in (1, 2, 3):
        write(tmp_path / "t" / f"p={p}", 1, 7)
    drop_partitions(memory, table, 4)
    gone = [{"p": "77"}, {"P": "4"}]
    assert read(hive_bitmap.refresh(memory, table, partitions=[{"P": "1"}, {"p": "3"}, *gone])) == [(6, 2, 0)]
    assert read(hive_bitmap.refresh(memory, table, partitions=gone)) == [(0, 0, 0)]
    with pytest.raises(NotFound, match="partition column"):
        hive_bitmap.refresh(memory, table, partitions=[{"k": "1"}])
    assert read(hive_bitmap.refresh(memory, table)) == [(9, 1, 2)]
    require_done(memory, table)
    with pytest.raises(NotFound, match="index"):
        hive_bitmap.refresh(memory, table, ["kk"])


def test_a_file_that_changed_while_the_build_ran_is_read_by_the_next_refresh(
    memory: SparkSession, tmp_path: Path
) -> None:
    table = flat_table(memory, tmp_path / "t")

    def change(_: object) -> None:
        write(tmp_path / "t", 1, 1)
        write(tmp_path / "t", 1, 5)

    [report] = hive_bitmap.build(memory, table, ["k"], progress=change)
    assert report.changed == 2
    assert read(hive_bitmap.refresh(memory, table)) == [(3, 2, 0)]
    require_done(memory, table)


def test_a_file_that_cannot_be_indexed_is_read_again_once_it_is_another(memory: SparkSession, tmp_path: Path) -> None:
    table = flat_table(memory, tmp_path / "t")
    (tmp_path / "t" / "bad.parquet").write_text("no Parquet")
    [report] = hive_bitmap.build(memory, table, ["k"])
    assert len(report.unindexed) == 1
    assert read(hive_bitmap.refresh(memory, table)) == [(3, 0, 1)]
    (tmp_path / "t" / "bad.parquet").write_text("no Parquet either")
    assert read(hive_bitmap.refresh(memory, table)) == [(3, 1, 0)]


def test_a_properties_edit_is_repaired(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, table, ["k"])
    [index] = catalog.table_and_indexes(memory, table)[1]
    alter_table.set_properties(memory, index.table, {"hive_bitmap.columns": "[]"})
    catalog.clear_caches()
    assert hive_bitmap.show(memory, table)[0].problem
    assert read(hive_bitmap.rebuild(memory, table)) == [(4, 0, 2)]
    require_done(memory, table)


def test_a_missing_shard_and_a_missing_segment_are_built_again(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, table, ["k"])
    [folder] = live(memory, table)
    next(Path(local_path(folder)).glob("part-*")).unlink()
    assert read(hive_bitmap.refresh(memory, table)) == [(4, 4, 0)]
    require_done(memory, table)
    [folder] = live(memory, table)
    for file in sorted(Path(local_path(folder)).rglob("*.*")):
        file.unlink()
    manifest.read.cache_clear()
    assert read(hive_bitmap.refresh(memory, table)) == [(4, 4, 0)]
    require_done(memory, table)


def test_a_year_of_daily_refreshes_leaves_a_few_segments(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 1)
    hive_bitmap.build(memory, table, ["k"])
    for day in range(2, 16):
        write(tmp_path / "t" / f"p={day}", 1)
        repair(memory, table)
        assert read(hive_bitmap.refresh(memory, table)) == [(day + 1, 1, day - 1)]
    assert hive_bitmap.show(memory, table)[0].segments <= 4
    require_done(memory, table)


def test_an_index_that_is_gone_is_told(memory: SparkSession, tmp_path: Path) -> None:
    table = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, table, ["k"])
    drop_table(memory, "db__flat_k__")
    with pytest.raises(NotFound, match="no index to rebuild"):
        hive_bitmap.refresh(memory, table)


@pytest.mark.parametrize("update", [hive_bitmap.refresh, hive_bitmap.rebuild])
def test_an_index_that_no_longer_fits_keeps_no_other_from_being_refreshed(
    memory: SparkSession, in_memory: MemoryMetastore, tmp_path: Path, update: Callable[..., list[BuildReport]]
) -> None:
    table = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, table, ["k", "id"])
    in_memory.give("db", table, columns=(Column("k", "bigint"), Column("id", "bigint")))
    write(tmp_path / "t", 1, 5)
    before = live(memory, table)
    changed = "index k is on k int, but in table db.flat it is bigint: drop the index and create it again"
    with pytest.raises(Unsupported, match=changed) as named:
        update(memory, table, ["id", "k"])
    assert "other indexes" not in str(named.value) and live(memory, table) == before
    for _ in range(2):  # the second time there is nothing to do
        with pytest.raises(Unsupported, match=f"{changed}; the other indexes of table db.flat have been brought up"):
            update(memory, table)
        assert {one.definition.name: one.unindexed for one in hive_bitmap.show(memory, table)}["id"] == 0
    hive_bitmap.drop(memory, table, "id")
    with pytest.raises(Unsupported, match=f"{changed}$"):
        update(memory, table)
    hive_bitmap.drop(memory, table, "k")
    hive_bitmap.build(memory, table, ["k"])
    require_done(memory, table)
