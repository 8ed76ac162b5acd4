"""How much of a table its indexes cover, by the files and manifests in real folders, as a server shows them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import SEGMENT, stored_columns, to_properties
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.indexing.segment_change import BaseFile
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import CorruptIndex, NotFound, Unsupported
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.states import Coverage, show
from tests.hive.hiveserver.described import hive, lake
from tests.spark.building.generations import Workshop

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
P = Column("p", "string")


class Place:
    """A folder with a table of three files, of 1, 2 and 3 rows, and an index that covers all of them."""

    def __init__(self, folder: Path) -> None:
        self.shop = Workshop.at(folder)
        self.files = [self.shop.write(f"{rows}.parquet", range(rows)) for rows in (1, 2, 3)]
        self.published = self.built(*self.files)
        self.base = replace(self.shop.base, provider="hive", input_format=PARQUET, serde=SERDE)

    def built(self, *files: FileStatus) -> Manifest:
        return self.shop.carried_out(self.shop.change(*files))[1]

    def path(self, rows: int) -> Path:
        return self.shop.folder / "base" / f"{rows}.parquet"

    def index_table(self, published: Manifest, **fields: object) -> Table:
        definition = replace(self.shop.definition, **fields)  # type: ignore[arg-type]
        return Table(
            database="db",
            name=definition.index_table,
            kind="EXTERNAL",
            columns=(*definition.columns, *stored_columns(definition)),
            partition_columns=(SEGMENT,),
            location=definition.root,
            properties=to_properties(definition),
        )

    def serving(self, folder: str = "") -> Server:
        """A server whose index table has two slots, of which one is empty."""
        table, empty = self.index_table(self.published), f"{self.shop.definition.root}/empty"
        slots = {("0",): empty, ("1",): folder or self.published.folder}
        return hive(lake(self.base, table, partitions={table.name: slots}))

    def shown(self) -> Coverage:
        [found] = show(self.serving(), "db.t")
        assert found.definition == self.shop.definition
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def numbers(found: Coverage) -> tuple[int, int, int, int, int]:
    assert found.problem == ""
    return found.fresh, found.stale, found.unindexed, found.gone, found.rows


def test_all_files_are_covered(place: Place) -> None:
    assert numbers(place.shown()) == (3, 0, 0, 0, 6)


def test_a_table_without_an_index(place: Place) -> None:
    assert show(hive(lake(place.base)), "db.t") == []
    with pytest.raises(NotFound, match=r"^no table 'none' in database db; known: t$"):
        show(hive(lake(place.base)), "db.none")


def test_a_file_that_changed(place: Place) -> None:
    place.shop.write("2.parquet", range(20))
    assert numbers(place.shown()) == (2, 1, 0, 0, 4)


def test_a_file_that_was_only_touched_is_as_good_as_changed(place: Place) -> None:
    os.utime(place.path(3), (1, 1))
    assert numbers(place.shown()) == (2, 1, 0, 0, 3)


def test_a_file_that_is_new(place: Place) -> None:
    place.shop.write("new.parquet", range(5))
    (place.shop.folder / "base" / "empty.parquet").touch()  # in which no row can be missed
    (place.shop.folder / "base" / "_SUCCESS").write_text("x")
    assert numbers(place.shown()) == (3, 0, 1, 0, 6)


def test_files_that_are_gone(place: Place) -> None:
    place.path(1).unlink()
    assert numbers(place.shown()) == (2, 0, 0, 1, 5)
    place.path(2).unlink()
    place.path(3).unlink()
    assert numbers(place.shown()) == (0, 0, 0, 3, 0)


def test_all_at_once(place: Place) -> None:
    place.path(1).unlink()
    place.shop.write("2.parquet", range(20))
    place.shop.write("4.parquet", range(4))
    assert numbers(place.shown()) == (1, 1, 1, 1, 3)


def test_each_index_is_counted_by_itself(place: Place) -> None:
    later = place.built(*place.files[:1])
    indexes = [place.index_table(later, name="a", index_table="db__t_a__"), place.index_table(place.published)]
    slots = {
        one.name: {("0",): folder} for one, folder in zip(indexes, (later.folder, place.published.folder), strict=True)
    }
    found = show(hive(lake(place.base, *reversed(indexes), partitions=slots)), "db.t")
    assert [(one.definition.name, *numbers(one)) for one in found] == [("a", 1, 0, 2, 0, 1), ("i", 3, 0, 0, 0, 6)]


def test_of_an_index_that_cannot_be_used_nothing_is_counted(place: Place) -> None:
    serving = hive(lake(place.base, place.index_table(place.published, enabled=False)))
    [found] = show(serving, "db.t")
    said = "index i is not enabled: set its property enabled to true"
    assert (found.problem, found.fresh, found.unindexed, found.rows) == (said, 0, 0, 0)
    assert not any(statement.startswith("dfs") for statement in serving.connection.statements)


def test_an_index_table_that_points_elsewhere_covers_nothing(place: Place) -> None:
    [found] = show(place.serving(place.base.location), "db.t")
    assert numbers(found) == (0, 0, 3, 0, 0)


def test_a_generation_that_is_not_whole(place: Place) -> None:
    [shard] = place.published.sizes
    Path(place.published.shard_path(shard).removeprefix("file:")).unlink()
    with pytest.raises(CorruptIndex, match=r"was changed after the build"):
        place.shown()


def test_folders_about_which_readers_differ(place: Place) -> None:
    (place.shop.folder / "base" / "deeper").mkdir()
    with pytest.raises(Unsupported, match=r"^not all readers read file:.*/base/deeper: "):
        place.shown()


def test_partitions_that_have_no_index_rows_are_not_indexed(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    files = [shop.write(f"p={value}/{value}.parquet", range(rows)) for value, rows in [("x", 3), ("y y", 4), ("z", 5)]]
    shop = replace(shop, definition=replace(shop.definition, partitioned_by=(P,)))
    read = [BaseFile((value,), file) for file, value in zip(files, ["x", "gone"], strict=False)]
    _, published = shop.carried_out(shop.change(*read))
    base = replace(shop.base, provider="hive", input_format=PARQUET, serde=SERDE, partition_columns=(P,))
    index = Table(
        database="db",
        name=shop.definition.index_table,
        kind="EXTERNAL",
        columns=(*shop.definition.columns, *stored_columns(shop.definition)),
        partition_columns=(SEGMENT,),
        location=shop.definition.root,
        properties=to_properties(shop.definition),
    )
    built = {("0",): published.folder}
    located = {(value,): f"{base.location}/p={value}" for value in ("x", "y y", "z")}
    [found] = show(hive(lake(base, index, partitions={"t": located, index.name: built})), "db.t")
    assert numbers(found) == (1, 0, 2, 0, 3)
    [found] = show(hive(lake(base, index, partitions={"t": {}, index.name: built})), "db.t")
    assert numbers(found) == (0, 0, 0, 0, 0)
