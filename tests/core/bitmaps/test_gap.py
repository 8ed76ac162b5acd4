"""Test the gap coding against its definition, applied byte by byte, and reject invalid bitmaps."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import gap, selection
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.errors import CorruptBitmap


def byte_at_a_time(plain: bytes) -> tuple[bytes, list[int]]:
    """Return the stored bytes and gap lengths of a plain bitmap, computed byte by byte."""
    stored, lengths = [], []
    for byte, equal in groupby(plain):
        size = len(list(equal))
        if byte in (0x00, 0xFF):
            stored.append(byte)
            lengths.append(size)
        else:
            stored += [byte] * size
    return bytes(stored), lengths


def decoded(bitmap: bytes, lengths: list[int], total: int) -> list[int]:
    where = selection.layout([total])
    bits = selection.nothing(where)
    columns = [pa.array([bitmap], pa.binary()), pa.array([lengths], pa.list_(pa.int32()))]
    gap.decode_into(bits, columns, np.zeros(1, np.int64), np.array([total]))
    found = selection.rows(bits, where, 0).tolist()
    assert gap.cardinalities(columns, np.array([total])).tolist() == [len(found)]
    return found


def test_the_examples_of_hive_1803() -> None:
    """The rows are 5, 12, 64 and 7, 8, 9, 0-based as in Hive, in a block of 72 rows."""
    codes = np.zeros(72, int)
    codes[[5, 12, 64]], codes[[7, 8, 9]] = 1, 2
    bitmaps, lengths = gap.encode(key_bytes(codes)[1])
    assert bitmaps[1].as_py().hex() == "20100001"
    assert lengths[1].as_py() == [6]
    assert bitmaps[2].as_py().hex() == "800300"
    assert lengths[2].as_py() == [7]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from([0x00, 0xFF, 0xFF, 0x00, 0x01, 0xFE]), st.integers(1, 300)), max_size=20))
def test_the_coding_is_the_definition(pieces: list[tuple[int, int]]) -> None:
    plain = b"".join(bytes([byte]) * size for byte, size in pieces)
    codes = np.unpackbits(np.frombuffer(plain, np.uint8), bitorder="little").astype(int)
    present, b = key_bytes(codes)
    for key, bitmap, lengths in zip(present, *(column.to_pylist() for column in gap.encode(b)), strict=True):
        assert (bitmap, lengths) == byte_at_a_time(np.packbits(codes == key, bitorder="little").tobytes())
        assert decoded(bitmap, lengths, len(codes)) == np.flatnonzero(codes == key).tolist()


def test_runs_that_another_writer_left_in_two_are_read() -> None:
    assert decoded(b"\x00\x00\xff\xff\x01", [1, 2, 1, 1], 48) == [*range(24, 40), 40]


@pytest.mark.parametrize("bytes_of_run", [1, 63, 64, 65, 5000])
def test_runs_of_any_length(bytes_of_run: int) -> None:
    rows = 8 * bytes_of_run
    assert decoded(b"\x00\xff\x01", [bytes_of_run, bytes_of_run], 2 * rows + 1) == list(range(rows, 2 * rows + 1))


@pytest.mark.parametrize(
    ("bitmap", "lengths"),
    [
        pytest.param(b"", [], id="no bytes"),
        pytest.param(b"\x01\x00", [11], id="a byte too few"),
        pytest.param(b"\x01\x00", [13], id="a byte too many"),
        pytest.param(b"\x01\x00", [], id="no gap length"),
        pytest.param(b"\x01\x00", [12, 1], id="a gap length too many"),
        pytest.param(b"\x01\x00\x00", [0, 12], id="a gap of nothing"),
        pytest.param(b"\x01\x00\x00", [-1, 13], id="a negative gap"),
        pytest.param(b"\x00\x10", [12], id="a row behind the block"),
        pytest.param(b"\x01\xff", [12], id="a run behind the block"),
    ],
)
def test_what_does_not_fit_is_refused(bitmap: bytes, lengths: list[int]) -> None:
    """A bitmap of a block of 100 rows has 13 bytes, of which the last has four bits."""
    with pytest.raises(CorruptBitmap, match="bitmap 0 of 1"):
        decoded(bitmap, lengths, 100)


def test_gap_lengths_of_a_neighbour_do_not_help() -> None:
    """Reject two bitmaps that only together have the right number of gap lengths."""
    columns = [pa.array([b"\x01\x00", b"\x00"], pa.binary()), pa.array([[], [12, 13]], pa.list_(pa.int32()))]
    with pytest.raises(CorruptBitmap, match="bitmap 0 of 2"):
        gap.cardinalities(columns, np.array([100, 100]))


def test_a_null_gap_length_is_refused() -> None:
    columns = [pa.array([b"\x01\x00"], pa.binary()), pa.array([[None]], pa.list_(pa.int32()))]
    with pytest.raises(CorruptBitmap, match="NULL"):
        gap.cardinalities(columns, np.array([100]))
