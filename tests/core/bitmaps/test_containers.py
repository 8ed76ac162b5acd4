"""Where the containers of stored bitmaps lie, by CRoaring's own bytes; what is wrong with a bitmap is said of it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from hive_bitmap.core.bitmaps.roaring import ARRAY, BITS, RUNS, Containers, parse
from hive_bitmap.errors import CorruptBitmap
from tests.core.bitmaps.test_roaring import BITS as DENSE
from tests.core.bitmaps.test_roaring import array_of, runs_of

TOTAL = 200_000


def parsed(*stored: bytes, rows: int = TOTAL) -> Containers:
    offsets = np.cumsum([0, *map(len, stored)])
    data = np.frombuffer(b"".join(stored), np.uint8)
    return parse(data, offsets, np.full(len(stored), rows))


def rows_of(found: Containers, bitmap: int) -> list[int]:
    """Return the rows of one bitmap, read from its containers one by one."""
    rows: list[int] = []
    data = found.data.tobytes()
    for n in np.flatnonzero(found.owner == bitmap).tolist():
        first, at = int(found.key[n]) << 16, int(found.at[n])
        if found.kind[n] == ARRAY:
            inside = list(struct.unpack_from(f"<{found.cardinality[n]}H", data, at))
        elif found.kind[n] == RUNS:
            numbers = struct.unpack_from(f"<{1 + 2 * found.runs[n]}H", data, at)
            assert numbers[0] == found.runs[n]
            pairs = zip(numbers[1::2], numbers[2::2], strict=True)
            inside = [row for begin, more in pairs for row in range(begin, begin + more + 1)]
        else:
            bits = np.frombuffer(data[at : at + 8192], np.uint8)
            inside = np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()
        assert len(inside) == found.cardinality[n]
        rows += [first + row for row in inside]
    return rows


PARTS = st.one_of(
    st.sets(st.integers(0, TOTAL - 1), max_size=20),
    st.tuples(st.integers(0, TOTAL - 1), st.integers(1, 70_000)).map(lambda run: set(range(run[0], sum(run)))),
    st.tuples(st.integers(0, 65_535), st.integers(2, 9)).map(lambda some: set(range(some[0], TOTAL, some[1]))),
)
BITMAPS = st.lists(st.tuples(st.lists(PARTS, max_size=3), st.booleans()), min_size=1, max_size=4)


@given(BITMAPS)
@settings(max_examples=20)
def test_the_containers_of_many_bitmaps_are_found_at_once(described: list[tuple[list[set[int]], bool]]) -> None:
    wanted, stored = [], []
    for parts, optimize in described:
        bitmap = BitMap(row for part in parts for row in part if row < TOTAL)
        wanted.append(list(bitmap))
        if optimize:
            bitmap.run_optimize()
        stored.append(bitmap.serialize())
    found = parsed(*stored)
    assert [rows_of(found, number) for number in range(len(stored))] == wanted
    assert set(found.kind.tolist()) <= {ARRAY, BITS, RUNS}
    assert not found.runs[found.kind != RUNS].any()
    arrays = [row & 0xFFFF for n in np.flatnonzero(found.kind == ARRAY) for row in rows_in(found, n)]
    assert found.array_rows().tolist() == arrays
    begins, lengths = found.run_rows()
    covered = [
        row for begin, size in zip(begins.tolist(), lengths.tolist(), strict=True) for row in range(begin, begin + size)
    ]
    assert covered == [row & 0xFFFF for n in np.flatnonzero(found.kind == RUNS) for row in rows_in(found, n)]


@pytest.mark.parametrize(("count", "kind"), [(1, ARRAY), (4096, ARRAY), (4097, BITS), (32_768, BITS)])
def test_a_container_without_runs_is_an_array_up_to_4096_rows(count: int, kind: int) -> None:
    rows = list(range(65_536, 65_536 + 2 * count, 2))
    found = parsed(BitMap(rows).serialize())
    assert (found.key.tolist(), found.kind.tolist(), found.cardinality.tolist()) == ([1], [kind], [count])
    assert rows_of(found, 0) == rows


def rows_in(found: Containers, container: int) -> list[int]:
    owner, key = found.owner[container], found.key[container]
    return [row for row in rows_of(found, int(owner)) if row >> 16 == key]


@pytest.mark.parametrize(
    ("stored", "rows", "what"),
    [
        (b"", 100, "it is shorter than the shortest header, 8 bytes"),
        (array_of(3, 9)[:7], 100, "it is shorter than the shortest header, 8 bytes"),
        (b"\x39" + array_of(3, 9)[1:], 100, "its cookie is neither 12346 nor 12347"),
        (array_of(3, 9)[:2] + b"\1\0" + array_of(3, 9)[4:], 100, "its cookie is neither 12346 nor 12347"),
        (BitMap([1, 70_000]).serialize(), 65_536, "it has more containers than its block can fill"),
        (array_of(3, 9)[:12], 100, "its header is cut off"),
        (array_of(3, 9)[:-1], 100, "its containers do not end where it ends"),
        (array_of(3, 9) + b"\0", 100, "its containers do not end where it ends"),
        (array_of(3, 9)[:12] + b"\x11" + array_of(3, 9)[13:], 100, "a position in its header is wrong"),
        (array_of(9, 3), 100, "an array of rows is out of order"),
        (array_of(9, 9), 100, "an array of rows is out of order"),
        (array_of(3, 100), 100, "it has a row behind the last row"),
        (runs_of(5, 9, 2, 3, 1), 100, "its runs are out of order"),
        (runs_of(5, 3, 2, 5, 1), 100, "its runs are out of order"),
        (runs_of(2, 99, 1), 100, "it has a run behind the last row"),
        (runs_of(6, 3, 1, 9, 2), 100, "a cardinality in its header is wrong"),
        (DENSE[:-1] + b"\x57", 65_536, "a cardinality in its header is wrong"),
        (DENSE, 65_000, "it has bits behind the last row"),
        (array_of(1)[:8] + b"\1\0" + array_of(1)[10:], 65_536, "it has a container behind the last row"),
    ],
)
def test_what_is_wrong_is_said_of_the_bitmap_that_is_wrong(stored: bytes, rows: int, what: str) -> None:
    """It stands behind a good one, and before one that is as wrong."""
    good = array_of(3, 9)
    for several, number in (([stored], 0), ([good, stored, stored], 1)):
        with pytest.raises(CorruptBitmap) as error:
            parsed(*several, rows=rows)
        assert str(error.value) == f"bitmap {number} of {len(several)}: {what}"
    assert rows_of(parsed(good, rows=rows), 0) == [3, 9]


def test_containers_out_of_order_are_told() -> None:
    two = bytearray(BitMap([1, 70_000]).serialize())
    two[8], two[12] = two[12], two[8]
    with pytest.raises(CorruptBitmap, match=r"^bitmap 0 of 1: its containers are out of order$"):
        parsed(bytes(two))


def test_of_no_bitmaps_there_are_no_containers() -> None:
    found = parsed()
    assert len(found.owner) == len(found.array_rows()) == len(found.run_rows()[0]) == 0
