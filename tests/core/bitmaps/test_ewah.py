"""Test EWAH against a simple writer and reader of Hive's layout, and against arrays that Hive wrote."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import ewah, selection
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.errors import CorruptBitmap

# Rows, and the array that Hive 0.8 to 2.3 wrote for them.
GOLDEN = [
    ([0], [1, 2, 4, 8589934592, 1, 0]),
    ([12], [13, 2, 4, 8589934592, 4096, 0]),
    ([82, 179, 226], [227, 4, 5, 25769803778, 262144, 2251799813685248, 17179869184, 0]),
    (
        [3 * 64 + 49, 5 * 64 + 51, 7 * 64 + 46],
        [495, 6, 7, 8589934598, 562949953421312, 8589934594, 2251799813685248, 8589934594, 70368744177664, 4],
    ),
]

# Rows, and arrays that Hive's EWAH_BITMAP_* functions or other writers may make of them.
FOREIGN = [
    pytest.param([], [0, 1, 4, 0, 0], id="empty"),
    pytest.param([], [13, 1, 4, 2, 0], id="AND of 12 and 7: a run of one zero word"),
    pytest.param([70], [71, 3, 400, 2, 8589934592, 64, 1], id="zeros, then a marker without a run; a large capacity"),
    pytest.param(range(128), [128, 2, 4, 3, 3, 1], id="two runs of ones that could be one"),
    pytest.param([1], [1000, 3, 4, 8589934592, 2, 30, 2], id="zeros at the end"),
]


def word_at_a_time(rows: Iterable[int]) -> list[int]:
    """Return Hive's array for these rows, built word by word."""
    ordered = sorted(rows)
    words: dict[int, int] = {}
    for row in ordered:
        words[row // 64] = words.get(row // 64, 0) | 1 << row % 64
    markers: list[list] = [[0, 0, []]]  # bit and length of the run, literals

    def run(bit: int, size: int) -> None:
        last = markers[-1]
        if last[2] or (last[1] and last[0] != bit):
            markers.append([bit, 0, []])
        markers[-1][0] = bit
        markers[-1][1] += size

    following = 0
    for index, word in words.items():
        if index > following:
            run(0, index - following)
        if word == 2**64 - 1:
            run(1, 1)
        else:
            markers[-1][2].append(word)
        following = index + 1
    flat = [number for bit, size, literals in markers for number in (bit | size << 1 | len(literals) << 33, *literals)]
    signed = [number - 2**64 if number >> 63 else number for number in flat]
    return [ordered[-1] + 1, len(flat), max(4, len(flat) + 1), *signed, len(flat) - 1 - len(markers[-1][2])]


def encoded(rows: Iterable[int], total: int) -> list[int]:
    codes = np.ones(total, int)
    codes[list(rows)] = 0
    return ewah.encode(key_bytes(codes)[1])[0][0].as_py()


def decoded(array: list[int], total: int) -> list[int]:
    where = selection.layout([total])
    bits = selection.nothing(where)
    column = pa.array([array], pa.list_(pa.int64()))
    ewah.decode_into(bits, [column], np.zeros(1, np.int64), np.array([total]))
    found = selection.rows(bits, where, 0).tolist()
    assert ewah.cardinalities([column], np.array([total])).tolist() == [len(found)]
    return found


@pytest.mark.parametrize(("rows", "array"), GOLDEN)
def test_the_bytes_are_hives(rows: list[int], array: list[int]) -> None:
    assert encoded(rows, 1000) == array == word_at_a_time(rows)
    assert decoded(array, 1000) == rows
    assert decoded(array, rows[-1] + 1) == rows


@pytest.mark.parametrize(("rows", "array"), FOREIGN)
def test_other_arrays_are_read(rows: Iterable[int], array: list[int]) -> None:
    assert decoded(array, 1000) == list(rows)


ranges = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 400)), max_size=8)


@settings(max_examples=150)
@given(ranges, st.sets(st.integers(0, 3399), max_size=40), st.booleans())
def test_all_keys_are_written_as_one_word_after_another(
    runs: list[tuple[int, int]], single: set[int], aligned: bool
) -> None:
    codes = np.zeros(3400, int)
    for i, (begin, length) in enumerate(runs):
        codes[begin // 64 * 64 if aligned else begin : begin + length] = i + 1
    codes[list(single)] = 99
    present, b = key_bytes(codes)
    arrays = ewah.encode(b)[0].to_pylist()
    assert arrays == [word_at_a_time(np.flatnonzero(codes == key).tolist()) for key in present]
    for key, array in zip(present, arrays, strict=True):
        assert decoded(array, 3400) == np.flatnonzero(codes == key).tolist()


@pytest.mark.parametrize(
    "array",
    [
        pytest.param([], id="no numbers"),
        pytest.param([0, 0, 4, 0], id="no words"),
        pytest.param([13, 2, 4, 8589934592, 4096], id="cut off"),
        pytest.param([13, 2, 4, 8589934592, 4096, 0, 0], id="too long"),
        pytest.param([13, 2, 8589934592, 4096, 0], id="without a capacity, as JavaEWAH 0.3.3 and later write it"),
        pytest.param([13, 2, 1, 8589934592, 4096, 0], id="capacity below its words"),
        pytest.param([13, 2, 4, 17179869184, 4096, 0], id="a literal more than there are"),
        pytest.param([13, 2, 4, -1, 4096, 0], id="as many literals as a marker can tell"),
        pytest.param([13, 2, 4, 8589934592, 4096, 1], id="last marker is elsewhere"),
        pytest.param([12, 2, 4, 8589934592, 4096, 0], id="a row behind its last one"),
        pytest.param([101, 2, 4, 8589934594, 1 << 36, 0], id="a row behind the block"),
        pytest.param([100, 2, 4, 8589934600, 1, 0], id="a literal behind the last word"),
        pytest.param([100, 1, 4, 5, 0], id="a run behind the block"),
        pytest.param([-1, 1, 4, 0, 0], id="negative size"),
    ],
)
def test_what_does_not_fit_is_refused(array: list[int]) -> None:
    with pytest.raises(CorruptBitmap, match="bitmap 0 of 1"):
        decoded(array, 100)
