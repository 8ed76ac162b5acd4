"""Keys are looked up in shards of random rows; the oracle is a dict of the rows of each key in each block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import ENCODINGS, selection
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, lookup, shard
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.lookup import Entries, Flags, KeyStats
from hive_bitmap.core.index.shard import built_schema, key_fields
from hive_bitmap.errors import CorruptIndex, DroppedIndex

DEFINITION = Definition(
    name="i", database="db", table="t", columns=(Column("k", "int"), Column("s", "string")), encoding="plain"
)
LONG = "x" * 5000  # Parquet's statistics have no values of more than 4,096 bytes
KINDS = [*ENCODINGS, "compact"]
Key = tuple[int | None, str | None]
Block = list[Key]  # the keys of its rows
Place = tuple[str, int]  # file and offset of a block


@dataclass(frozen=True)
class Shard:
    path: str
    size: int
    definition: Definition
    blocks: dict[Place, Block]

    @property
    def rows_of(self) -> dict[tuple[Key, Place], set[int]]:
        """The oracle: which rows of a block have which key."""
        found: dict[tuple[Key, Place], set[int]] = {}
        for place, block in self.blocks.items():
            for row, key in enumerate(block):
                found.setdefault((key, place), set()).add(row)
        return found

    def find(
        self, column: int, wanted: Callable[[KeyStats], bool], matches: Callable[[pa.Array], Flags]
    ) -> Iterator[Entries]:
        kind = lookup.Rows.BLOCKS if self.definition.has_bitmaps else lookup.Rows.LISTS
        return lookup.find(self.path, self.size, key_fields(self.definition)[column], wanted, matches, kind)


def write(folder: Path, kind: str, files: Sequence[Sequence[Block]], group_rows: int = 3) -> Shard:
    """Write a shard of the blocks of files, with row groups of so many rows."""
    how = {"type": "COMPACT"} if kind == "compact" else {"encoding": kind}
    definition = replace(DEFINITION, **how)  # type: ignore[arg-type]
    encoding = ENCODINGS[definition.encoding]
    schema = built_schema(replace(definition, type="BITMAP"))
    blocks = {
        (f"file:/w/{file}", 4 + 100 * n): block for file, parts in enumerate(files) for n, block in enumerate(parts)
    }
    tables = [schema.empty_table()]
    for (file, offset), block in blocks.items():
        distinct = sorted(set(block), key=repr)
        present, b = key_bytes(np.array([distinct.index(key) for key in block], np.int64))
        keys = [distinct[code] for code in present.tolist()]
        columns = [pa.array([key[0] for key in keys], pa.int32()), pa.array([key[1] for key in keys], pa.string())]
        columns += [pa.array([file] * len(keys), pa.string()), pa.array([offset] * len(keys), pa.int64())]
        columns += [*encoding.encode(b), pa.array(b.cardinalities(), pa.int32())]
        tables.append(pa.Table.from_arrays([pa.chunked_array([c]) for c in columns], names=schema.names).cast(schema))
    rows = shard.sort(pa.concat_tables(tables).combine_chunks(), definition.column_names)
    if kind == "compact":
        rows = shard.compact(rows, definition)
    (folder / FOLDER).mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "ROW_GROUP_ROWS", group_rows)
        written = shard.write(f"file:{folder}/part-1.parquet", rows, definition)
    checksums.write(f"file:{folder}", written.sums)
    return Shard(f"file:{folder}/part-1.parquet", written.size, definition, blocks)


def among(keys: set[Any]) -> tuple[Callable[[KeyStats], bool], Callable[[pa.Array], Flags]]:
    """Return the two functions that look up a set of keys."""

    def wanted(stats: KeyStats) -> bool:
        if stats.low is None:
            return True
        return (None in keys and stats.nulls) or any(stats.low <= key <= stats.high for key in keys if key is not None)

    return wanted, lambda found: np.array([key in keys for key in found.to_pylist()], bool)


def places(entries: Entries) -> list[Place]:
    return list(zip(entries.buckets.to_pylist(), entries.offsets.tolist(), strict=True))


NUMBERS, TEXTS = st.sampled_from([None, -1, 0, 1, 2, 3]), st.sampled_from([None, "", "a", "ab", "é", "\U0010ffff"])
KEYS = st.tuples(NUMBERS, TEXTS)
FILES = st.lists(st.lists(st.lists(KEYS, min_size=1, max_size=12), max_size=3), min_size=1, max_size=3)


@given(FILES, st.sampled_from(KINDS), st.integers(0, 1), st.sets(st.one_of(NUMBERS, TEXTS)), st.integers(1, 4))
@settings(max_examples=80)
def test_the_entries_of_keys_are_those_of_the_rows_that_hold_them(
    tmp_path: Path, files: list[list[Block]], kind: str, column: int, keys: set[Any], group_rows: int
) -> None:
    keys = {key for key in keys if key is None or isinstance(key, (int, str)[column])}
    held = write(tmp_path / uuid4().hex, kind, files, group_rows)
    expected = {(key, place): rows for (key, place), rows in held.rows_of.items() if key[column] in keys}
    wanted, matches = among(keys)
    for _ in range(2):  # the second time from memory
        found = list(held.find(column, wanted, matches))
        if kind == "compact":
            assert all(entries.cardinality is None for entries in found)
            # the file and the blocks of each whole key are one row of the index
            assert Counter(place for entries in found for place in places(entries)) == Counter(
                place for _, place in expected
            )
            continue
        counted = Counter(
            (place, cardinality)
            for entries in found
            if entries.cardinality is not None
            for place, cardinality in zip(places(entries), entries.cardinality.tolist(), strict=True)
        )
        assert counted == Counter((place, len(rows)) for (_, place), rows in expected.items())
        assert selected(held, found) == {
            place: {row for row, key in enumerate(block) if key[column] in keys} for place, block in held.blocks.items()
        }


def selected(held: Shard, found: list[Entries]) -> dict[Place, set[int]]:
    """Return the rows of each block in the bitmaps of these entries."""
    numbers = {place: number for number, place in enumerate(held.blocks)}
    where = selection.layout([len(block) for block in held.blocks.values()])
    bits = selection.nothing(where)
    for entries in found:
        blocks = np.array([numbers[place] for place in places(entries)], np.int64)
        held_bitmaps = lookup.bitmaps(held.path, held.size, entries.group, held.definition.encoding)
        held_bitmaps.or_into(bits, entries.rows, where.starts[blocks], where.rows[blocks])
    return {place: set(selection.rows(bits, where, number).tolist()) for place, number in numbers.items()}


@given(FILES, st.integers(1, 4))
@settings(max_examples=50)
def test_all_entries_distinct_keys_ranges_and_cardinalities(
    tmp_path: Path, files: list[list[Block]], group_rows: int
) -> None:
    held = write(tmp_path / uuid4().hex, "gap", files, group_rows)
    fields = key_fields(held.definition)
    found = list(lookup.all_entries(held.path, held.size, fields, lambda stats: True))
    counted = Counter(
        ((number, text), place, cardinality)
        for (numbers, texts), entries in found
        if entries.cardinality is not None
        for number, text, place, cardinality in zip(
            numbers.to_pylist(), texts.to_pylist(), places(entries), entries.cardinality.tolist(), strict=True
        )
    )
    assert counted == Counter((key, place, len(rows)) for (key, place), rows in held.rows_of.items())
    assert [entries.group for _, entries in found] == list(range(pq.read_metadata(held.path[5:]).num_row_groups))
    assert lookup.cardinalities(held.path).tolist() == [
        count for _, entries in found if entries.cardinality is not None for count in entries.cardinality
    ]
    for column, field in enumerate(fields):
        distinct = [set(values.to_pylist()) for values in lookup.distinct(held.path, held.size, field)]
        assert distinct == [set(values[column].to_pylist()) for values, _ in found]
        known = [key[column] for block in held.blocks.values() for key in block if key[column] is not None]
        low, high = lookup.key_range(held.path, held.size, field.name)
        assert (low, high) == ((min(known), max(known)) if known else (None, None))  # type: ignore[type-var]


class TestRowGroups:
    @pytest.fixture
    def held(self, tmp_path: Path) -> Shard:
        """Four row groups: 0 and 1, 2 and 3, 4 and 5, NULL."""
        return write(tmp_path / "g", "plain", [[[(key, "a") for key in (0, 1, 2, 3, 4, 5, None)]]], 2)

    def test_wanted_is_asked_for_the_range_of_each(self, held: Shard) -> None:
        asked: list[KeyStats] = []
        assert (
            lookup.share(held.path, held.size, key_fields(held.definition)[0], lambda s: asked.append(s) or False) == 0
        )
        assert asked == [
            KeyStats(0, 1, False),
            KeyStats(2, 3, False),
            KeyStats(4, 5, False),
            KeyStats(None, None, True),
        ]

    def test_only_those_that_are_wanted_are_read(self, held: Shard) -> None:
        seen: list[list[Any]] = []

        def matches(keys: pa.Array) -> Flags:
            seen.append(keys.to_pylist())
            return np.ones(len(keys), bool)

        def wanted(stats: KeyStats) -> bool:
            return stats.low is not None and bool(stats.low >= 2)

        assert [entries.group for entries in held.find(0, wanted, matches)] == [1, 2] and seen == [[2, 3], [4, 5]]
        key = key_fields(held.definition)[0]
        assert lookup.share(held.path, held.size, key, wanted) == 0.5
        several = lookup.all_entries(held.path, held.size, key_fields(held.definition), wanted)
        assert [entries.group for _, entries in several] == [1, 2]

    def test_one_without_a_hit_yields_nothing(self, held: Shard) -> None:
        found = list(held.find(0, lambda stats: True, lambda keys: np.array([key == 3 for key in keys.to_pylist()])))
        assert [(entries.group, entries.rows.tolist()) for entries in found] == [(1, [1])]

    def test_a_shard_without_rows_has_nothing(self, tmp_path: Path) -> None:
        empty = write(tmp_path / "g", "gap", [])
        key = key_fields(empty.definition)[0]
        assert list(empty.find(0, lambda stats: True, lambda keys: np.ones(len(keys), bool))) == []
        assert lookup.share(empty.path, empty.size, key, lambda stats: True) == 0
        assert len(lookup.cardinalities(empty.path)) == 0

    @pytest.mark.parametrize("texts", [("a", LONG, "zz"), ("a", LONG, None), (LONG, None, None), (None, None, None)])
    def test_the_range_of_texts_that_are_too_long_for_statistics_is_not_known(
        self, tmp_path: Path, texts: tuple[str | None, ...]
    ) -> None:
        held = write(tmp_path / "g", "gap", [[[(1, text) for text in texts]]], 1)
        assert lookup.key_range(held.path, held.size, "s") == (None, None)

    def test_keys_of_floats_have_no_range(self, tmp_path: Path) -> None:
        """Parquet's statistics leave NaN out, so that a lookup of it would miss its row group."""
        definition = replace(DEFINITION, columns=(Column("f", "double"),))
        keys = pa.array([float("nan"), 1.0, None])
        rows = {"f": keys, "_bucketname": ["file:/w/0"] * 3, "_offset": [4] * 3, "_bitmaps": [b"\1", b"\2", b"\4"]}
        table = pa.table({**rows, "_cardinality": [1] * 3}).cast(built_schema(definition))
        (tmp_path / FOLDER).mkdir()
        path = f"file:{tmp_path}/part-1.parquet"
        written = shard.write(path, shard.sort(table, ["f"]), definition)
        asked: list[KeyStats] = []
        key = key_fields(definition)[0]
        lookup.share(path, written.size, key, lambda stats: asked.append(stats) or True)
        assert asked == [KeyStats(None, None, True)] and lookup.key_range(path, written.size, "f") == (None, None)


class TestUnreadable:
    @pytest.fixture
    def held(self, tmp_path: Path) -> Shard:
        return write(tmp_path / "g", "plain", [[[(1, "a"), (2, "b"), (None, None)]]])

    def refused(self, held: Shard) -> CorruptIndex:
        checksums.of_generation.cache_clear()
        lookup.clear_caches()
        with pytest.raises(CorruptIndex) as error:
            list(held.find(0, lambda stats: True, lambda keys: np.ones(len(keys), bool)))
        return error.value

    def test_what_was_read_stays_in_memory(self, held: Shard, tmp_path: Path) -> None:
        wanted, matches = among({1})
        first = list(held.find(0, wanted, matches))
        kept = lookup.bitmaps(held.path, held.size, 0, "plain")
        (tmp_path / "g" / "part-1.parquet").unlink()
        (tmp_path / "g" / FOLDER / "part-1.cardinalities").unlink()
        again = list(held.find(0, wanted, matches))
        assert places(again[0]) == places(first[0]) == [("file:/w/0", 4)]
        assert lookup.bitmaps(held.path, held.size, 0, "plain") is kept
        assert "part-1.parquet" in str(self.refused(held))

    def test_a_shard_that_is_gone_is_damage_unless_its_generation_is_gone(self, held: Shard, tmp_path: Path) -> None:
        (tmp_path / "g" / "part-1.parquet").unlink()
        error = self.refused(held)
        assert type(error) is CorruptIndex
        assert str(error).startswith(f"shard part-1.parquet of file:{tmp_path}/g cannot be read: ")
        (tmp_path / "g").rename(tmp_path / "h")
        error = self.refused(held)
        assert type(error) is DroppedIndex
        assert str(error) == f"generation file:{tmp_path}/g or its manifest no longer exists"

    def test_a_shard_of_another_size_is_another(self, held: Shard) -> None:
        error = self.refused(replace(held, size=held.size - 1))
        assert str(error).endswith(f"cannot be read: it has {held.size} bytes instead of {held.size - 1}")

    def test_cardinalities_of_other_rows_are_damage(self, held: Shard, tmp_path: Path) -> None:
        more = write(tmp_path / "h", "plain", [[[(1, "a"), (2, "b"), (None, None), (4, "d")]]])
        for name in (f"{FOLDER}/part-1.cardinalities", f"{FOLDER}/{checksums.NAME}"):
            (tmp_path / "g" / name).unlink()
        (tmp_path / "g" / FOLDER / "part-1.cardinalities").write_bytes(
            (tmp_path / "h" / FOLDER / "part-1.cardinalities").read_bytes()
        )
        assert str(self.refused(held)).endswith("cannot be read: it has 3 rows, but 4 cardinalities")
        assert more.size

    def test_a_column_that_the_shard_lacks_is_damage(self, held: Shard) -> None:
        with pytest.raises(CorruptIndex, match=r"shard part-1\.parquet of .* cannot be read"):
            lookup.key_range(held.path, held.size, "z")
