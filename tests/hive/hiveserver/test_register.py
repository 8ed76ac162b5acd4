"""An index found in its folder: the newest generation that is whole, and the table that is made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation
from hive_bitmap.core.index.definition import POINTER, Definition
from hive_bitmap.core.stores import local_path
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import CorruptIndex, NotFound, Unsupported
from hive_bitmap.hive.hiveserver.register import create_statement, create_table, definition_in, segments_in
from tests.hive.hiveserver.described import Row, hive
from tests.hive.hiveserver.folders import server
from tests.spark.building.generations import K, S, Workshop

NAMES = [f"generation-2026112{day}T000000-0a1b2c3d" for day in range(1, 5)]


def build(shop: Workshop, name: str) -> str:
    """Make a complete segment of this name."""
    folder = f"{shop.definition.root}/{name}"
    shop.carried_out(shop.change(shop.write("a.parquet", [1]), folder=folder))
    return folder


def test_segments_that_are_whole_and_not_replaced(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    root = shop.definition.root
    assert segments_in(server(), root) == []
    first, second, third, last = (build(shop, name) for name in NAMES)
    (Path(local_path(root)) / "generation-9").mkdir()  # no name of ours
    assert segments_in(server(), root) == [first, second, third, last]
    Path(local_path(f"{last}/_manifest/shards.parquet")).unlink()  # it is written last
    assert segments_in(server(), root) == [first, second, third]
    generation.retire(third, shop.definition)
    assert segments_in(server(), root) == [first, second]
    manifest = Path(local_path(f"{second}/_manifest"))
    manifest.rename(manifest.with_name("other"))
    assert segments_in(server(), root) == [first]


def test_the_definition_is_that_of_the_newest_generation(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    root = shop.definition.root
    build(shop, NAMES[0])
    build(replace(shop, definition=replace(shop.definition, comment="new")), NAMES[1])
    assert definition_in(server(), root) == replace(shop.definition, comment="new", index_table="")


def test_another_folder_than_the_one_it_was_built_in(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    build(shop, NAMES[0])
    Path(local_path(shop.definition.root)).rename(tmp_path / "moved")
    with pytest.raises(Unsupported) as raised:
        definition_in(server(), f"file:{tmp_path}/moved")
    assert str(raised.value) == (
        f"the index was built in {shop.definition.root}: name that folder, not file:{tmp_path}/moved"
    )


def test_a_folder_without_an_index(tmp_path: Path) -> None:
    (tmp_path / "p=1" / "q=2").mkdir(parents=True)
    with pytest.raises(NotFound) as raised:
        definition_in(server(), f"file:{tmp_path}")
    assert str(raised.value) == (f"folder file:{tmp_path} has no complete segment of an index that HS2 can see")


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        (None, "cannot be read: "),
        ("{", "cannot be read: "),
        ("[]", "cannot be read: "),
        ("{}", "cannot be read: "),
        ('{"definition": {}}', "the index in .* was edited, or is of a later version"),
    ],
)
def test_a_generation_that_does_not_say_whose_it_is(tmp_path: Path, marker: str | None, said: str) -> None:
    shop = Workshop.at(tmp_path)
    path = Path(local_path(f"{build(shop, NAMES[0])}/{generation.MARKER}"))
    path.unlink()
    if marker is not None:
        path.write_text(marker)
    with pytest.raises(CorruptIndex, match=said):
        definition_in(server(), shop.definition.root)


def test_an_edited_definition_is_not_believed(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    path = Path(local_path(f"{build(shop, NAMES[0])}/{generation.MARKER}"))
    content = json.loads(path.read_text())
    content["definition"]["hive_bitmap.encoding"] = "plain"
    path.unlink()
    path.write_text(json.dumps(content))
    with pytest.raises(CorruptIndex, match="was edited, or is of a later version"):
        definition_in(server(), shop.definition.root)
    assert stores.exists(shop.definition.root)


BASE = Table(database="db", name="t", kind="MANAGED", columns=(Column("k", "bigint"), S))
INDEX = Definition(
    name="i", database="db", table="t", columns=(K,), index_table="db__t_i__", root="file:/w/i", comment="it's"
)


@pytest.mark.parametrize(
    ("base", "definition", "begin"),
    [
        (
            BASE,
            INDEX,
            "CREATE EXTERNAL TABLE `db`.`db__t_i__` (`k` bigint, `_bucketname` string, `_offset` bigint, "
            "`_bitmaps` binary, `_gap_lengths` array<int>) "
            "PARTITIONED BY (`hive_bitmap_segment` int) STORED AS PARQUET LOCATION 'file:/w/i/it\\'s' TBLPROPERTIES (",
        ),
        (
            replace(BASE, partition_columns=(Column("p`q", "int"), Column("d", "date"))),
            replace(INDEX, type="COMPACT", partitioned_by=(Column("p`q", "int"), Column("d", "timestamp"))),
            "CREATE EXTERNAL TABLE `db`.`db__t_i__` (`k` bigint, `_bucketname` string, `_offsets` array<bigint>, "
            "`p``q` int, `d` string) "
            "PARTITIONED BY (`hive_bitmap_segment` int) STORED AS PARQUET LOCATION 'file:/w/i/it\\'s' TBLPROPERTIES (",
        ),
    ],
)
def test_the_statement_that_makes_the_index_table(base: Table, definition: Definition, begin: str) -> None:
    statement = create_statement(base, replace(definition, root="file:/w/i/it's"))
    assert statement.startswith(begin)
    assert "'hive_bitmap.comment'='it\\'s'" in statement and statement.endswith("')")


def test_a_table_of_another_name_or_database_gets_a_pointer() -> None:
    index, base = replace(INDEX, index_database="idx"), replace(BASE, columns=(K,), properties={POINTER: "own"})
    points = f"ALTER TABLE `db`.`t` SET TBLPROPERTIES ('{POINTER}'='idx.db__t_i__,own')"
    made = create_statement(base, index)
    assert made.startswith("CREATE EXTERNAL TABLE `idx`.`db__t_i__` ")
    answers: dict[str, list[Row]] = {"SHOW DATABASES": [("db",), ("idx",)], "SHOW TABLES IN `idx`": []}
    serving = hive({**answers, points: [], made: []})
    create_table(serving, base, index, [])
    assert serving.connection.statements[-2:] == [points, made]
    again = hive({**answers, made: []})
    create_table(again, replace(base, properties={POINTER: "idx.db__t_i__"}), index, [])
    assert again.connection.statements[-1] == made
