"""Test Roaring against pyroaring (CRoaring), in both directions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from hive_bitmap.core.bitmaps import roaring, selection
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.errors import CorruptBitmap

TOTAL = 400_000


def codes_of(name: str) -> np.ndarray:
    """Return a block of seven containers, whose keys have containers of these kinds."""
    row = np.arange(TOTAL)
    rare = (row % 500 == 3).astype(int)
    random = np.random.default_rng(7)
    return {
        "arrays": random.integers(0, 100, TOTAL),
        "bits": random.integers(0, 2, TOTAL),
        "runs": row // 70_000,
        "few runs": (row > 100_000).astype(int),
        "all kinds": np.where(row < 65_536, row % 2, np.where(row < 131_072, row // 100 % 2, rare)),
        "holes": np.where((row >> 16) % 2 == 0, 2, random.integers(0, 2, TOTAL)),
        "arrays of 4096 and bits of 4097": np.where(row % 16 == 0, 0, np.where(row % 65_536 == 1, 0, row >> 17)),
        "as long in runs as in an array": (row > 2).astype(int),
        "single rows": np.where(row % 65_535 == 5, 0, 1),
    }[name]


def decoded(stored: list[bytes], total: int) -> np.ndarray:
    where = selection.layout([total])
    bits = selection.nothing(where)
    column = pa.array(stored, pa.binary())
    size = len(stored)
    roaring.decode_into(bits, [column], np.zeros(size, np.int64), np.full(size, total))
    return selection.rows(bits, where, 0)


@pytest.mark.parametrize(
    "name",
    [
        "arrays",
        "bits",
        "runs",
        "few runs",
        "all kinds",
        "holes",
        "arrays of 4096 and bits of 4097",
        "as long in runs as in an array",
        "single rows",
    ],
)
def test_croaring_reads_ours_and_we_read_croarings(name: str) -> None:
    codes = codes_of(name)
    present, b = key_bytes(codes)
    for key, ours in zip(present.tolist(), roaring.encode(b)[0].to_pylist(), strict=True):
        rows = np.flatnonzero(codes == key)
        theirs = BitMap(rows.astype(np.uint32))
        assert BitMap.deserialize(ours) == theirs, key
        plain = theirs.serialize()
        theirs.run_optimize()
        assert ours == theirs.serialize(), key
        for foreign in (plain, theirs.serialize()):
            assert decoded([foreign], TOTAL).tolist() == rows.tolist(), key
            column = pa.array([foreign], pa.binary())
            assert roaring.cardinalities([column], np.array([TOTAL])).tolist() == [len(rows)]


ranges = st.lists(st.tuples(st.integers(0, 199_999), st.integers(1, 70_000)), max_size=6)


@settings(max_examples=100)
@given(ranges, st.sets(st.integers(0, 199_999), max_size=50), st.booleans())
def test_any_bitmap_of_croaring_is_read(runs: list[tuple[int, int]], single: set[int], optimize: bool) -> None:
    theirs = BitMap(single)
    for begin, length in runs:
        theirs.add_range(begin, min(begin + length, 200_000))
    rows = list(theirs)
    if optimize:
        theirs.run_optimize()
    assert decoded([theirs.serialize()], 200_000).tolist() == rows
    assert decoded([theirs.serialize()], max(rows, default=0) + 1).tolist() == rows
    if rows:
        refused(theirs.serialize(), rows[-1])


def test_many_of_croarings_bitmaps_at_once() -> None:
    several = [BitMap(range(i, 200_000, 7 + i)) for i in range(5)] + [BitMap(range(100_000, 190_000)), BitMap()]
    several[5].run_optimize()
    assert decoded([bitmap.serialize() for bitmap in several], 200_000).tolist() == list(BitMap.union(*several))


def array_of(*rows: int) -> bytes:
    """Serialise one container of kind array, which may be invalid."""
    numbers = b"".join(row.to_bytes(2, "little") for row in rows)
    head = (12346).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(2) + (len(rows) - 1).to_bytes(2, "little")
    return head + (16).to_bytes(4, "little") + numbers


def runs_of(cardinality: int, *numbers: int) -> bytes:
    """Serialise one container of runs, which may be invalid."""
    header = [12347, 0, None, 0, cardinality - 1, len(numbers) // 2, *numbers]
    return b"".join(b"\x01" if number is None else number.to_bytes(2, "little") for number in header)


def test_the_hand_made_ones_are_right_where_they_should_be() -> None:
    assert decoded([array_of(3, 9)], 100).tolist() == [3, 9] == list(BitMap.deserialize(array_of(3, 9)))
    assert decoded([runs_of(5, 3, 1, 9, 2)], 100).tolist() == [3, 4, 9, 10, 11]
    assert list(BitMap.deserialize(runs_of(5, 3, 1, 9, 2))) == [3, 4, 9, 10, 11]


BITS = BitMap(range(0, 65_536, 2)).serialize()


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(b"", id="no bytes"),
        pytest.param(array_of(3, 9)[:7], id="cut off in the header"),
        pytest.param(array_of(3, 9)[:-1], id="cut off in a container"),
        pytest.param(array_of(3, 9) + b"\0", id="too long"),
        pytest.param(b"\x39" + array_of(3, 9)[1:], id="another cookie"),
        pytest.param(array_of(9, 3), id="rows descend"),
        pytest.param(array_of(9, 9), id="a row twice"),
        pytest.param(array_of(3, 100), id="a row behind the block"),
        pytest.param(array_of(3, 9)[:12] + b"\x11" + array_of(3, 9)[13:], id="a wrong position in the header"),
        pytest.param(runs_of(5, 9, 2, 3, 1), id="runs descend"),
        pytest.param(runs_of(5, 3, 2, 5, 1), id="runs overlap"),
        pytest.param(runs_of(6, 3, 1, 9, 2), id="a wrong cardinality of runs"),
        pytest.param(runs_of(2, 99, 1), id="a run behind the block"),
        pytest.param(BITS, id="bits behind the block"),
        pytest.param(BitMap([70_000]).serialize(), id="a container behind the block"),
    ],
)
def test_what_does_not_fit_is_refused(stored: bytes) -> None:
    refused(stored, 100)


def test_a_wrong_cardinality_of_bits_is_refused() -> None:
    assert len(decoded([BITS], 65_536)) == 32_768
    refused(BITS[:-1] + b"\x57", 65_536)


def test_bits_in_the_bytes_behind_the_block_are_refused() -> None:
    stored = BitMap([*range(0, 10_000, 2), 60_000]).serialize()
    assert len(decoded([stored], 60_001)) == 5001
    refused(stored, 10_008)


def test_runs_that_reach_beyond_all_that_is_stored_are_refused() -> None:
    """A wrong number of runs in the first container puts the second one far beyond the data."""
    header = [12347, 1, None, 0, 1, 1, 1, 60_000, 3, 1]
    refused(b"".join(b"\x03" if number is None else number.to_bytes(2, "little") for number in header), 100_000)


def test_containers_out_of_order_are_refused() -> None:
    two = bytearray(BitMap([1, 70_000]).serialize())
    two[8], two[12] = two[12], two[8]
    refused(bytes(two), 200_000)


def refused(stored: bytes, total: int) -> None:
    with pytest.raises(CorruptBitmap):
        decoded([stored], total)
    with pytest.raises(CorruptBitmap):
        roaring.cardinalities([pa.array([stored], pa.binary())], np.array([total]))
