"""A refresh looks at what has changed, and at nothing else; afterwards a rebuild has nothing left to do but repairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import listing_digest, manifest
from hive_bitmap.core.index.definition import schema_crc
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.spark.building.preview import preview
from hive_bitmap.spark.metastore import alter_table, jvm_reader, metastore, serde
from hive_bitmap.spark.metastore.file_listing import files_of
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import (
    drop_partitions,
    drop_table,
    external_table,
    flat_table,
    generations,
    index_table,
    live,
    parted_table,
    repair,
    require_right,
    require_verified,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.building.build import BuildReport


@contextmanager
def touched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """What is asked of the local store meanwhile: the operations, each with its path."""
    found: list[tuple[str, str]] = []
    store = type(stores._LOCAL)

    def noted(name: str, do: Any) -> Any:
        def operation(self: object, path: str, *more: Any, **named: Any) -> Any:
            found.append((name, path))
            return do(self, path, *more, **named)

        return operation

    with monkeypatch.context() as patched:
        for name, do in list(vars(store).items()):
            if callable(do) and not name.startswith("_"):
                patched.setattr(store, name, noted(name, do))
        yield found


def digests(spark: SparkSession, table: str) -> dict[tuple[str | None, ...], str]:
    """What is recorded of each partition of the first index."""
    index = catalog.table_and_indexes(spark, table)[1][0]
    return {values: one.listing for values, one in catalog.published(spark, index).items()}


def forget_digests(spark: SparkSession, table: str) -> None:
    """Make the indexes like those of an earlier version, which recorded nothing."""
    for index in catalog.table_and_indexes(spark, table)[1]:
        if index.table.partition_columns:
            nothing = {values: {listing_digest.PROPERTY: ""} for values in catalog.published(spark, index)}
            alter_table.switch(spark, index.table, {}, {}, (), nothing)
        else:
            alter_table.set_properties(spark, index.table, {}, [listing_digest.PROPERTY])
    catalog.clear_caches()


def looked_at(reports: list[BuildReport]) -> list[tuple[int, int, int]]:
    """Of each report: base files in scope, files read, partitions left alone."""
    return [(report.base_files, report.files_read, report.untouched) for report in reports]


def require_done(spark: SparkSession, table: str) -> None:
    """Check that a rebuild has nothing to do, that a refresh looks at nothing, and that the index is verified."""
    assert [one.partitions for one in preview(spark, table)] == [()] * len(hive_bitmap.show(spark, table))
    assert {found[:2] for found in looked_at(hive_bitmap.refresh(spark, table))} <= {(0, 0)}
    require_verified(spark, table)
    for shown in hive_bitmap.show(spark, table):
        assert (shown.stale, shown.unindexed, shown.gone, shown.problem) == (0, 0, 0, "")


def test_a_refresh_of_nothing_is_one_listing_a_partition(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = parted_table(memory, tmp_path / "t", 5)
    hive_bitmap.build(memory, table, ["k", "id"])
    before = live(memory, table)
    for _ in range(2):
        with touched(monkeypatch) as found:
            reports = hive_bitmap.refresh(memory, table)
        assert sorted(found) == [("listing", f"file:{tmp_path}/t/p={p}") for p in range(1, 6)]
        assert looked_at(reports) == [(0, 0, 5), (0, 0, 5)]
    assert live(memory, table) == before
    require_done(memory, table)


def test_a_refresh_of_a_flat_table_that_did_not_change_is_one_listing(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, table, ["k"])
    for first in (2, 3):
        with touched(monkeypatch) as found:
            assert looked_at(hive_bitmap.refresh(memory, table)) == [(0, 0, 1)]
        assert found == [("listing", f"file:{tmp_path}/t")]
        write(tmp_path / "t", 1, first)
        assert looked_at(hive_bitmap.refresh(memory, table)) == [(first + 1, 1, 0)]
        require_done(memory, table)


def test_only_what_changed_is_looked_at(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 4)
    hive_bitmap.build(memory, table, ["k"])
    write(tmp_path / "t" / "p=2", 1, 7)
    (tmp_path / "t" / "p=3" / "0.parquet").unlink()
    write(tmp_path / "t" / "p=9")
    repair(memory, table)
    drop_partitions(memory, table, 4)
    [report] = hive_bitmap.refresh(memory, table)
    assert (report.base_files, report.files_read, report.untouched) == (3 + 1 + 2, 1 + 2, 1)
    assert (report.partitions_dropped, report.changed) == (1, 0)
    require_done(memory, table)


def test_queries_keep_what_they_know_of_partitions_that_did_not_change(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = parted_table(memory, tmp_path / "t", 3)
    hive_bitmap.build(memory, table, ["k"])
    require_verified(memory, table)
    before = live(memory, table)
    write(tmp_path / "t" / "p=2", 1, 7)
    hive_bitmap.refresh(memory, table)
    kept = sorted({*before} & {*live(memory, table)})
    with touched(monkeypatch) as found:
        assert [manifest.read(folder).files.num_rows for folder in kept] == [2, 2]
    assert found == []


def test_each_index_has_a_record_of_its_own(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, table, ["k", "id"])
    write(tmp_path / "t" / "p=2", 1, 7)
    assert looked_at(hive_bitmap.refresh(memory, table, ["ID"])) == [(3, 1, 1)]
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(0, 0, 2), (3, 1, 1)]
    require_done(memory, table)


def test_only_partitions_that_match_a_spec(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 4)
    hive_bitmap.build(memory, table, ["k"])
    for p in (1, 2, 3):
        write(tmp_path / "t" / f"p={p}", 1, 7)
    drop_partitions(memory, table, 4)
    gone = [{"p": "77"}, {"P": "4"}]
    assert looked_at(hive_bitmap.refresh(memory, table, partitions=[{"P": "1"}, {"p": "3"}, *gone])) == [(6, 2, 0)]
    assert sorted(digests(memory, table)) == [("1",), ("2",), ("3",)]
    assert looked_at(hive_bitmap.refresh(memory, table, partitions=gone)) == [(0, 0, 0)]
    with pytest.raises(NotFound, match="partition column"):
        hive_bitmap.refresh(memory, table, partitions=[{"k": "1"}])
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(3, 1, 2)]
    require_done(memory, table)
    with pytest.raises(NotFound, match="index"):
        hive_bitmap.refresh(memory, table, ["kk"])


@pytest.mark.parametrize("partitions", [0, 3])
def test_an_index_of_an_earlier_version_is_looked_at_once_and_then_recorded(
    memory: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    folder = tmp_path / "t"
    table = parted_table(memory, folder, partitions) if partitions else flat_table(memory, folder)
    hive_bitmap.build(memory, table, ["k"])
    made = digests(memory, table)
    forget_digests(memory, table)
    assert set(digests(memory, table).values()) == {""}
    before = live(memory, table)
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(2 * max(partitions, 1), 0, 0)]
    assert (live(memory, table), digests(memory, table)) == (before, made)
    assert generations(memory, "db") == before
    require_done(memory, table)


def test_what_cannot_be_recorded_is_looked_at_again(
    memory: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, table, ["k"])
    forget_digests(memory, table)

    def refused(*_: Any) -> None:
        raise OSError("read only")

    with monkeypatch.context() as read_only:
        read_only.setattr(alter_table, "switch", refused)
        assert looked_at(hive_bitmap.refresh(memory, table)) == [(4, 0, 0)]
    assert "could not be recorded: read only" in caplog.text
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(4, 0, 0)]
    require_done(memory, table)


def test_without_py4j_partitions_are_not_recorded_and_always_looked_at(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parted, flat = parted_table(spark, tmp_path / "t", 2), flat_table(spark, tmp_path / "f")
    with monkeypatch.context() as connected:
        connected.setattr(jvm_reader, "available", lambda _: False)
        for table in (parted, flat):
            hive_bitmap.build(spark, table, ["k"])
        assert looked_at(hive_bitmap.refresh(spark, parted)) == [(4, 0, 0)]
        assert looked_at(hive_bitmap.refresh(spark, flat)) == [(0, 0, 1)]
        assert digests(spark, parted) == {("1",): "", ("2",): ""}
    hive_bitmap.refresh(spark, parted)
    with monkeypatch.context() as connected:
        connected.setattr(jvm_reader, "available", lambda _: False)
        assert looked_at(hive_bitmap.refresh(spark, parted)) == [(0, 0, 2)]  # what others recorded is believed
    require_done(spark, parted)
    require_right(spark, parted)


def test_a_file_that_changed_while_the_build_ran_is_read_by_the_next_refresh(
    memory: SparkSession, tmp_path: Path
) -> None:
    table = flat_table(memory, tmp_path / "t")

    def change(_: object) -> None:
        write(tmp_path / "t", 1, 1)
        write(tmp_path / "t", 1, 5)

    [report] = hive_bitmap.build(memory, table, ["k"], progress=change)
    assert report.changed == 2
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(3, 2, 0)]
    require_done(memory, table)


def test_a_file_that_cannot_be_indexed_is_read_again_once_it_is_another(memory: SparkSession, tmp_path: Path) -> None:
    table = flat_table(memory, tmp_path / "t")
    (tmp_path / "t" / "bad.parquet").write_text("no Parquet")
    [report] = hive_bitmap.build(memory, table, ["k"])
    assert len(report.unindexed) == 1
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(0, 0, 1)]
    (tmp_path / "t" / "bad.parquet").unlink()
    write(tmp_path / "t", 1, 5)
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(3, 1, 0)]
    require_done(memory, table)


def test_columns_encoding_and_coverage_are_followed(spark: SparkSession, database: str, tmp_path: Path) -> None:
    table = parted_table(spark, tmp_path / "t", 3)
    hive_bitmap.build(spark, table, ["k"], where="p < 3")
    spark.sql("ALTER TABLE parted ADD COLUMNS (more string)")
    assert looked_at(hive_bitmap.refresh(spark, table)) == [(4, 0, 0)]  # no file is read, and what was seen is recorded
    assert looked_at(hive_bitmap.refresh(spark, table)) == [(0, 0, 2)]
    hive_bitmap.set_properties(spark, table, "k", {"comment": "c", "owner": "me"})
    hive_bitmap.rename(spark, table, "k", "l")
    assert looked_at(hive_bitmap.refresh(spark, table)) == [(0, 0, 2)]
    hive_bitmap.set_properties(spark, table, "l", {"encoding": "ewah"})
    assert looked_at(hive_bitmap.refresh(spark, table, partitions=[{"p": "1"}])) == [(0, 0, 1)]
    assert looked_at(hive_bitmap.refresh(spark, table)) == [(4, 4, 0)]
    assert hive_bitmap.show(spark, table)[0].definition.encoding == "ewah"
    require_done(spark, table)
    [report] = hive_bitmap.extend(spark, table, "l", "p = 3")
    assert report.files_read == 2
    require_done(spark, table)
    hive_bitmap.drop(spark, table, "l", where="p = 1")
    require_done(spark, table)
    require_right(spark, table)


def test_a_moved_dropped_or_swapped_partition_of_the_index_is_not_believed(
    memory: SparkSession, tmp_path: Path
) -> None:
    table = parted_table(memory, tmp_path / "t", 6)
    hive_bitmap.build(memory, table, ["k"])
    index = catalog.table_and_indexes(memory, table)[1][0]
    places = catalog.published_generations(memory, index)
    one, two, three, four, five, _ = sorted(places)
    moved = {one: f"file:{tmp_path}/elsewhere", two: places[three], three: places[two], ("55",): places[five]}
    digest = {("55",): {listing_digest.PROPERTY: catalog.published(memory, index)[five].listing}}
    alter_table.switch(memory, index.table, places, moved, [four, five], digest)  # so partition 5 is renamed, too
    catalog.clear_caches()
    [report] = hive_bitmap.refresh(memory, table)
    assert (report.base_files, report.untouched, report.partitions_dropped) == (10, 1, 1)
    require_done(memory, table)


def test_statements_that_change_no_generation_change_no_record(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    table = parted_table(spark, tmp_path / "t", 2)
    hive_bitmap.build(spark, table, ["k"])
    name = index_table(spark, table)
    before = digests(spark, table)
    for statement in (
        f"ANALYZE TABLE {name} COMPUTE STATISTICS",
        f"ANALYZE TABLE {name} PARTITION (p=1) COMPUTE STATISTICS",
        f"ALTER TABLE {name} PARTITION (p=1) SET SERDEPROPERTIES ('a'='b')",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('a'='b')",
        f"MSCK REPAIR TABLE {name}",
        f"REFRESH TABLE {name}",
    ):
        spark.sql(statement)
        catalog.clear_caches()
        assert {values: digests(spark, table)[values] for values in before} == before, statement
    require_done(spark, table)
    require_right(spark, table)


def test_a_properties_edit_is_repaired(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, table, ["k"])
    [index] = catalog.table_and_indexes(memory, table)[1]
    alter_table.set_properties(memory, index.table, {"hive_bitmap.columns": "[]"})
    catalog.clear_caches()
    assert hive_bitmap.show(memory, table)[0].problem
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(4, 0, 0)]
    require_done(memory, table)


def test_damage_is_left_to_queries_and_to_a_rebuild(memory: SparkSession, tmp_path: Path) -> None:
    table = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, table, ["k"])
    [shard, _] = sorted(path for folder in live(memory, table) for path in Path(local_path(folder)).glob("part-*"))
    shard.unlink()
    manifest.read.cache_clear()
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(0, 0, 2)]
    assert [problem for found in hive_bitmap.verify(memory, table) for problem in found.problems]
    hive_bitmap.rebuild(memory, table)
    require_done(memory, table)


def test_a_forged_digest_costs_time_and_no_answer(memory: SparkSession, tmp_path: Path) -> None:
    table = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, table, ["k"])
    write(tmp_path / "t", 1, 5)
    base, [index] = catalog.table_and_indexes(memory, table)
    crc = schema_crc(base.columns, metastore.time_zone(memory), serde.read_properties(base))
    forged = listing_digest.of_listing(live(memory, table)[0], index.definition, files_of(base, base.location), crc)
    alter_table.set_properties(memory, index.table, {listing_digest.PROPERTY: forged})
    assert looked_at(hive_bitmap.refresh(memory, table)) == [(0, 0, 1)]
    require_verified(memory, table)
    [report] = hive_bitmap.rebuild(memory, table)
    assert report.files_read == 1
    require_done(memory, table)


def test_a_table_without_an_index_or_one_that_is_none(memory: SparkSession, tmp_path: Path) -> None:
    table = flat_table(memory, tmp_path / "t")
    with pytest.raises(NotFound, match="no index to rebuild"):
        hive_bitmap.refresh(memory, table)
    hive_bitmap.build(memory, table, ["k"])
    drop_table(memory, table)
    external_table(memory, table, tmp_path / "t", [Column("k", "string"), Column("id", "bigint")])
    with pytest.raises(Unsupported):
        hive_bitmap.refresh(memory, table)
