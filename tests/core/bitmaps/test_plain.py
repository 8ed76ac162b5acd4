"""Test plain bitmaps against `np.packbits`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core.bitmaps import plain
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.errors import CorruptBitmap


@pytest.mark.parametrize("rows", [1, 8, 9, 1003])
def test_the_bytes_are_numpys(rows: int) -> None:
    codes = np.arange(rows) ** 2 % 5
    present, b = key_bytes(codes)
    packed = [np.packbits(codes == key, bitorder="little").tobytes() for key in present]
    assert plain.encode(b)[0].to_pylist() == packed


@pytest.mark.parametrize(
    "stored", [b"", b"\x01", b"\x01\x01\x01", pytest.param(b"\x01\x04", id="a row behind the block of 10 rows")]
)
def test_what_does_not_fit_is_refused(stored: bytes) -> None:
    columns = [pa.array([b"\xff\x03", stored], pa.binary())]
    bits = np.zeros(4, np.uint8)
    with pytest.raises(CorruptBitmap, match="bitmap 1 of 2"):
        plain.decode_into(bits, columns, np.array([0, 2]), np.array([10, 10]))
    assert not bits.any()
