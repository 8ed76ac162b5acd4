"""Plain bitmaps: the first iteration of HIVE-1803.

`_bitmaps binary`: row r of the block is bit r % 8, least significant first, of byte r // 8; ceil(rows / 8) bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.bitmaps.keybytes import KeyBytes
from hive_bitmap.bitmaps.ragged import binary_array, binary_values, require, segment_sums
from hive_bitmap.bitmaps.writing import byte_lengths, or_slices, tail_bits

NAME = "plain"
FIELDS = (pa.field("_bitmaps", pa.binary()),)


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """The bitmaps of the k keys: one column of k values of ceil(rows / 8) bytes."""
    data = np.zeros(b.keys * b.nbytes, np.uint8)
    start = np.arange(b.keys + 1) * b.nbytes
    data[np.repeat(start[:-1], np.diff(b.first)) + b.position] = b.value
    return (binary_array(data, start),)


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR the m stored bitmaps into `bits`: bitmap i belongs to a block of rows[i] rows that begins at bits[starts[i]].

    Raises CorruptBitmap, before `bits` is touched, for a bitmap that does not fit its block.
    """
    data, offsets = _read(columns, rows)
    or_slices(bits, starts, data, offsets[:-1], np.diff(offsets))


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bits each of the m stored bitmaps has set. Raises CorruptBitmap as `decode_into` does."""
    data, offsets = _read(columns, rows)
    return segment_sums(np.bitwise_count(data), offsets)


def _read(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all bitmaps, end to end, with their offsets: checked."""
    data, offsets = binary_values(columns[0])
    nbytes = byte_lengths(rows)
    require(np.diff(offsets) == nbytes, "its bytes are not ceil(rows / 8)")
    last = offsets[1:][nbytes > 0] - 1
    require((data[last] & ~tail_bits(rows[nbytes > 0])) == 0, "it has bits behind the last row")
    return data, offsets
