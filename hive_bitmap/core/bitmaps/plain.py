"""Plain (uncompressed) bitmaps.

They are the first implementation in the design of HIVE-1803:
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

from hive_bitmap.core.bitmaps import gap
from hive_bitmap.core.bitmaps.cached_bitmaps import PlainBitmaps
from hive_bitmap.core.bitmaps.keybytes import KeyBytes
from hive_bitmap.core.bitmaps.ragged import binary_array, binary_values, list_array, offsets_of, segment_sums
from hive_bitmap.errors import CorruptBitmap

NAME = "plain"
DENSE = True
FIELDS = (pa.field("_bitmaps", pa.binary()),)


def to_gap(plain: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the gap columns of m plain bitmaps.

    The bitmaps may be of any blocks. Raises CorruptBitmap for a bitmap without a row.

    >>> marks, lengths = to_gap(pa.array([bytes([0, 0, 1]), bytes([2])]))
    >>> [mark.hex() for mark in marks.to_pylist()], lengths.to_pylist()
    (['0001', '02'], [[2], []])
    """
    sizes = np.diff(binary_values(plain)[1])
    if not len(sizes):
        no_offsets = offsets_of(sizes)
        return binary_array(np.zeros(0, np.uint8), no_offsets), list_array(np.zeros(0, np.int32), no_offsets)
    parts = [
        gap.encode(_key_bytes(plain.take(pa.array(np.flatnonzero(sizes == size))), size))
        for size in np.unique(sizes).tolist()
    ]
    back = pa.array(np.argsort(np.argsort(sizes, kind="stable"), kind="stable"))
    marks, lengths = (pa.concat_arrays(columns).take(back) for columns in zip(*parts, strict=True))
    return marks, lengths


def to_plain(columns: Sequence[pa.Array]) -> pa.Array:
    """Return m gap-coded bitmaps as plain ones.

    Raises CorruptBitmap.
    """
    sizes = gap.plain_sizes(columns)
    starts = offsets_of(sizes)
    bits = np.zeros(int(starts[-1]), np.uint8)
    gap.decode_into(bits, columns, starts[:-1], sizes * 8)
    return binary_array(bits, starts)


def _key_bytes(plain: pa.Array, size: int) -> KeyBytes:
    """Return the non-zero bytes of plain bitmaps of one size.

    Raises CorruptBitmap for a bitmap without a row.
    """
    data, offsets = binary_values(plain)
    at = np.flatnonzero(data)
    first = np.searchsorted(at, offsets)
    if (np.diff(first) == 0).any():
        raise CorruptBitmap("a bitmap has no row")
    return KeyBytes(rows=size * 8, first=first, position=at - np.repeat(offsets[:-1], np.diff(first)), value=data[at])


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """Encode the bitmaps of the k keys.

    Returns one column of k values of ceil(rows / 8) bytes.
    """
    data = np.zeros(b.keys * b.nbytes, np.uint8)
    start = np.arange(b.keys + 1) * b.nbytes
    data[np.repeat(start[:-1], np.diff(b.first)) + b.position] = b.value
    return (binary_array(data, start),)


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR m stored bitmaps into `bits`.

    Bitmap i belongs to a block of rows[i] rows that begins at bits[starts[i]]. Raises CorruptBitmap, before `bits` is
    changed, for a bitmap that does not fit its block.
    """
    to_cached(columns).or_into(bits, np.arange(len(rows)), starts, rows)


def to_cached(columns: Sequence[pa.Array]) -> PlainBitmaps:
    """Return the bitmaps in the form that is cached.

    Raises CorruptBitmap if one is NULL.
    """
    return PlainBitmaps(*binary_values(columns[0]))


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the set bits of each of m stored bitmaps.

    Raises CorruptBitmap as `decode_into` does.
    """
    bitmaps = to_cached(columns)
    bitmaps.require_fit(np.arange(len(rows)), rows)
    return segment_sums(np.bitwise_count(bitmaps.data), bitmaps.offsets)
