"""Blocks by file and offset, for whole columns of index rows at once; a dict is the oracle."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.selecting.lookup_units import BlockNumbers, IndexPart, LookupUnit
from hive_bitmap.errors import CorruptIndex

Blocks = list[tuple[int, int]]  # offset and rows of each block of a file
FILES = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=4, unique_by=lambda block: block[0]),
    min_size=1,
    max_size=4,
)


def unit_of(files: list[Blocks], parts: dict[str, IndexPart] | None = None) -> LookupUnit:
    blocks = [(number, *block) for number, file in enumerate(files) for block in file]
    file, offset, rows = np.array(blocks, np.int64).reshape(-1, 3).T
    paths = tuple(f"file:/w/{number}" for number in range(len(files)))
    return LookupUnit(paths=paths, file=file, offset=offset, length=np.ones_like(rows), rows=rows, parts=parts or {})


def encoded(paths: list[str]) -> pa.DictionaryArray:
    return pa.array(paths, pa.string()).dictionary_encode()


@given(FILES, st.data())
def test_blocks_are_found_by_file_and_offset_and_files_that_are_not_known_are_ignored(
    files: list[Blocks], data: st.DataObject
) -> None:
    unit = unit_of(files)
    known = np.array(data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files))), bool)
    named = {(unit.paths[unit.file[n]], int(unit.offset[n])): n for n in range(len(unit.rows)) if unit.rows[n] > 0}
    strangers = [("file:/w/elsewhere", 3), *((path, 99) for path, k in zip(unit.paths, known, strict=True) if not k)]
    wanted = data.draw(st.lists(st.sampled_from([*named, *strangers]), max_size=6))
    numbers = BlockNumbers(unit, known)
    buckets, offsets = encoded([path for path, _ in wanted]), np.array([offset for _, offset in wanted], np.int64)
    blocks, positions = numbers.find(buckets, offsets)
    is_known = {path for path, k in zip(unit.paths, known, strict=True) if k}
    expected = [(named[place], at) for at, place in enumerate(wanted) if place[0] in is_known]
    assert list(zip(blocks.tolist(), positions.tolist(), strict=True)) == expected


@given(FILES, st.integers(0, 10), st.integers(0, 3))
def test_an_offset_at_which_a_known_file_has_no_block_with_rows_is_damage(
    files: list[Blocks], offset: int, file: int
) -> None:
    unit, file = unit_of(files), file % len(files)
    numbers = BlockNumbers(unit, np.ones(len(files), bool))
    if offset in {start for start, rows in files[file] if rows}:
        assert len(numbers.find(encoded([unit.paths[file]]), np.array([offset]))[0]) == 1
    else:
        with pytest.raises(CorruptIndex, match=r"^it names a block that its manifest does not$"):
            numbers.find(encoded([unit.paths[file]]), np.array([offset]))


def test_a_flag_that_is_cleared_later_counts_from_then_on() -> None:
    unit = unit_of([[(4, 1)], [(4, 1), (9, 1)]])
    known = np.ones(2, bool)
    numbers = BlockNumbers(unit, known)
    buckets, offsets = encoded(["file:/w/1", "file:/w/0", "file:/w/1"]), np.array([9, 4, 4])
    assert [found.tolist() for found in numbers.find(buckets, offsets)] == [[2, 0, 1], [0, 1, 2]]
    known[1] = False
    assert [found.tolist() for found in numbers.find(buckets, offsets)] == [[0], [1]]


@given(st.integers(1, 5), st.data())
def test_an_index_knows_the_files_of_its_part(count: int, data: st.DataObject) -> None:
    files = data.draw(st.sets(st.integers(0, count - 1)))
    numbers = np.array(sorted(files), np.int64)
    part = IndexPart(index="i", key=pa.field("k", pa.int32()), encoding="gap", shards=(), files=numbers)
    unit = unit_of([[(4, 1)]] * count, {"k": part})
    assert unit.covered(part).tolist() == [number in files for number in range(count)]
