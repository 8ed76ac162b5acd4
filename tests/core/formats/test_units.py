"""Units of a layout become blocks, and rows of a block its units; a list of units is the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import blocks
from hive_bitmap.core.formats.blocks import Units, in_batches
from hive_bitmap.errors import Undecodable

Pieces = list[tuple[int, int]]  # length and rows of each unit


@dataclass(frozen=True)
class Listed:
    """A layout whose units are given, after so many bytes that are no unit; they come in batches of this size."""

    pieces: Pieces
    batch: int
    header: int

    @property
    def starts(self) -> list[int]:
        return (self.header + np.cumsum([0, *(length for length, _ in self.pieces)])).tolist()[:-1]

    @property
    def size(self) -> int:
        return self.header + sum(length for length, _ in self.pieces)

    def units(self, source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
        pairs = zip(self.starts, (rows for _, rows in self.pieces), strict=True)
        return in_batches(((at, rows) for at, rows in pairs if start <= at < end), self.batch)


LISTED = st.builds(
    Listed, st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), max_size=9), st.integers(1, 4), st.integers(0, 5)
)


@given(LISTED, st.integers(1, 25), st.data())
@settings(max_examples=150)
def test_units_are_put_together_to_blocks_and_found_again_by_their_rows(
    tmp_path: Path, layout: Listed, most: int, data: st.DataObject
) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(layout.size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", most)
        found = blocks.blocks(layout, f"file:{path}")
    # a block ends before the first unit that starts so many bytes after the block
    expected: list[list[tuple[int, int]]] = []
    for start, (_, rows) in zip(layout.starts, layout.pieces, strict=True):
        if not expected or start >= expected[-1][0][0] + most:
            expected.append([])
        expected[-1].append((start, rows))
    assert found.offset.tolist() == found.start.tolist() == [block[0][0] for block in expected]
    assert found.rows.tolist() == [sum(rows for _, rows in block) for block in expected]
    ends = [*found.offset.tolist()[1:], layout.size][: len(expected)]
    assert found.length.tolist() == [end - start for start, end in zip(found.offset.tolist(), ends, strict=True)]
    for number, block in enumerate(expected):
        holder = [start for start, rows in block for _ in range(rows)]  # the unit of each row
        wanted = sorted(data.draw(st.sets(st.sampled_from(range(len(holder))))) if holder else [])
        place = (int(found.offset[number]), int(found.length[number]))
        got = blocks.row_offsets(layout, f"file:{path}", *place, np.array(wanted, np.int64))
        assert got.tolist() == sorted({holder[row] for row in wanted})
        assert blocks.row_offsets(layout, f"file:{path}", *place, None).tolist() == sorted(set(holder))
        with pytest.raises(Undecodable) as error:
            blocks.row_offsets(layout, f"file:{path}", *place, np.array([*wanted, len(holder)]))
        assert str(error.value) == f"file:{path} holds {len(holder)} rows at {place[0]}, not {len(holder) + 1}"


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=9), st.integers(1, 4))
def test_batches_hold_all_units_in_their_order(pairs: list[tuple[int, int]], size: int) -> None:
    batches = list(in_batches(iter(pairs), size))
    held = [list(zip(one.offset.tolist(), one.rows.tolist(), strict=True)) for one in batches]
    assert [pair for batch in held for pair in batch] == pairs
    assert all(len(batch) == size for batch in held[:-1]) and len(held[-1]) < size
    assert all(one.offset.dtype == one.rows.dtype == np.int64 for one in batches)


def test_a_file_that_is_gone_is_not_found(tmp_path: Path) -> None:
    layout = Listed([(1, 1)], 1, 0)
    with pytest.raises(FileNotFoundError):
        blocks.blocks(layout, f"file:{tmp_path}/none")
    with pytest.raises(FileNotFoundError):
        blocks.row_offsets(layout, f"file:{tmp_path}/none", 0, 1, None)


def test_a_negative_number_of_rows_is_damage() -> None:
    with pytest.raises(Undecodable, match="damaged at byte 7: it has -2 rows there"):
        list(in_batches(iter([(0, 3), (7, -2), (9, 1)])))
