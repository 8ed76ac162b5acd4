"""Convert plain bitmaps to gap-coded ones, and back.

Gap-coded bitmaps are the same bytes without the runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hive_bitmap.core.bitmaps import gap
from hive_bitmap.core.bitmaps.keybytes import KeyBytes
from hive_bitmap.core.bitmaps.ragged import binary_array, binary_values, list_array, offsets_of
from hive_bitmap.errors import CorruptBitmap


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
