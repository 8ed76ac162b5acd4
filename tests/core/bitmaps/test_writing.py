"""What is written into a selection is the union of what it had and what was written, as sets of rows have it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import selection
from hive_bitmap.core.bitmaps.selection import byte_lengths, fill, fill_rows, or_bytes, or_rows, or_slices, tail_bits

ROWS = 800  # bits of the selection
ROW = st.integers(0, ROWS - 1)
SETS = st.sets(ROW, max_size=60)


def bits_of(rows: set[int]) -> np.ndarray:
    flags = np.zeros(ROWS, bool)
    flags[list(rows)] = True
    return np.packbits(flags, bitorder="little")


def rows_of(bits: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist())


def longs(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@given(SETS, st.lists(ROW, max_size=60))
def test_rows(before: set[int], rows: list[int]) -> None:
    for order in (rows, sorted(rows)):
        bits = bits_of(before)
        or_rows(bits, longs(*order))
        assert rows_of(bits) == before | set(rows)


@given(SETS, st.lists(st.tuples(st.integers(0, ROWS // 8 - 1), st.integers(0, 255)), max_size=60))
def test_bytes_of_which_several_may_fall_into_one(before: set[int], written: list[tuple[int, int]]) -> None:
    bits = bits_of(before)
    or_bytes(bits, longs(*(at for at, _ in written)), np.array([value for _, value in written], np.uint8))
    assert rows_of(bits) == before | {8 * at + bit for at, value in written for bit in range(8) if value >> bit & 1}


RANGES = st.lists(st.tuples(ROW, st.integers(1, ROWS)).map(lambda one: (one[0], min(sum(one), ROWS))), max_size=12)


@pytest.mark.parametrize("long", [1, 3, 64])
@given(before=SETS, ranges=RANGES)
def test_ranges_of_rows(long: int, before: set[int], ranges: list[tuple[int, int]]) -> None:
    bits = bits_of(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_LONG", long)
        fill_rows(bits, longs(*(begin for begin, _ in ranges)), longs(*(end for _, end in ranges)))
    assert rows_of(bits) == before.union(*(range(begin, end) for begin, end in ranges))


@pytest.mark.parametrize("long", [1, 3, 64])
@given(before=SETS, ranges=RANGES)
def test_runs_of_bytes(long: int, before: set[int], ranges: list[tuple[int, int]]) -> None:
    runs = [(begin // 8, end // 8 - begin // 8) for begin, end in ranges]
    bits = bits_of(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_LONG", long)
        fill(bits, longs(*(start for start, _ in runs)), longs(*(length for _, length in runs)))
    assert rows_of(bits) == before.union(*(range(8 * start, 8 * (start + length)) for start, length in runs))


@pytest.mark.parametrize("wide", [0, 4, 256])
@given(
    before=SETS,
    data=st.lists(st.sampled_from([0, 1, 16, 255]), min_size=30, max_size=40).map(bytes),
    places=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 20)), max_size=8),
)
def test_slices(wide: int, before: set[int], data: bytes, places: list[tuple[int, int, int]]) -> None:
    slices = [(start, begin, min(length, max(len(data) - begin, 0))) for start, begin, length in places]
    wanted = set(before)
    for start, begin, length in slices:
        for number, value in enumerate(data[begin : begin + length]):
            wanted |= {8 * (start + number) + bit for bit in range(8) if value >> bit & 1}
    bits = bits_of(before)
    columns = (longs(*column) for column in zip(*slices, strict=True)) if slices else (longs(),) * 3
    starts, begins, lengths = columns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_WIDE", wide)
        or_slices(bits, starts, np.frombuffer(data, np.uint8), begins, lengths)
    assert rows_of(bits) == wanted


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=9))
def test_the_last_byte_of_a_block(rows: list[int]) -> None:
    counts = longs(*rows)
    assert byte_lengths(counts).tolist() == [len(np.packbits(np.ones(n, bool))) for n in rows]
    assert tail_bits(counts).tolist() == [int(np.packbits(np.ones(n, bool), bitorder="little")[-1]) for n in rows]
