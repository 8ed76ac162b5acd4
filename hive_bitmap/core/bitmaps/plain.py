"""Encode and decode plain (uncompressed) bitmaps.

Plain bitmaps are the first implementation in the design of HIVE-1803:
https://cwiki.apache.org/confluence/display/Hive/IndexDev+Bitmap.

`_bitmaps binary`: row r of the block is bit r % 8, least significant first, of byte r // 8; ceil(rows / 8) bytes.
Example: rows 5, 12 and 64 of a block of 72 rows.

>>> b = KeyBytes(rows=72, first=np.array([0, 3]), position=np.array([0, 1, 8]), value=np.uint8([0x20, 0x10, 0x01]))
>>> (bitmaps,) = encode(b)
>>> bitmaps[0].as_py().hex(" ")
'20 10 00 00 00 00 00 00 01'
>>> cardinalities([bitmaps], rows=np.array([72])).tolist()
[3]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.cached_bitmaps import PlainBitmaps
from hive_bitmap.core.bitmaps.keybytes import KeyBytes
from hive_bitmap.core.bitmaps.ragged import binary_array, binary_values, segment_sums

NAME = "plain"
FIELDS = (pa.field("_bitmaps", pa.binary()),)


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """Encode the bitmaps of the k keys of a block.

    `b` has the non-zero bytes of the bitmaps. Returns one column of k values of ceil(rows / 8) bytes.
    """
    data = np.zeros(b.keys * b.nbytes, np.uint8)
    start = np.arange(b.keys + 1) * b.nbytes
    data[np.repeat(start[:-1], np.diff(b.first)) + b.position] = b.value
    return (binary_array(data, start),)


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR m stored bitmaps into `bits`.

    `columns` has only the column `_bitmaps`, with m values. Bitmap i belongs to a block of rows[i] rows that begins at
    bits[starts[i]]. Raises CorruptBitmap, before `bits` is changed, for a bitmap that does not fit its block.
    """
    to_cached(columns).or_into(bits, np.arange(len(rows)), starts, rows)


def to_cached(columns: Sequence[pa.Array]) -> PlainBitmaps:
    """Return stored bitmaps in the form in which they are cached.

    `columns` has only the column `_bitmaps`. Raises CorruptBitmap if a bitmap is NULL.
    """
    return PlainBitmaps(*binary_values(columns[0]))


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the set bits of each of m stored bitmaps.

    `columns` has only the column `_bitmaps`, and `rows` the number of rows of each bitmap's block. Raises CorruptBitmap
    for a bitmap that does not fit its block.
    """
    bitmaps = to_cached(columns)
    bitmaps.require_fit(np.arange(len(rows)), rows)
    return segment_sums(np.bitwise_count(bitmaps.data), bitmaps.offsets)
