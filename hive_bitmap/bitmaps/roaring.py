"""Roaring bitmaps in their portable serialisation, as CRoaring, Java and Go write it.

The format is https://github.com/RoaringBitmap/RoaringFormatSpec#standard-32-bit-roaring-bitmap.

`_bitmaps binary`, little-endian: a cookie, 12346 followed by the number of containers as 32 bits, or, where a container
is made of runs, 12347 with the number less one in its upper 16 bits, followed by a bit a container (1: runs). Then for
each container its key (row >> 16) and its cardinality less one, 16 bits each; then its position, 32 bits (left out
where there are runs and less than 4 containers); then the containers: up to 4096 rows & 0xFFFF of 16 bits, or 8192
bytes of bits, or the number of runs and for each its first row and its length less one.

Rows 5, 12 and 64 of a block of 72 rows: the cookie 12346, 1 container; key 0, cardinality 3 - 1; position 16; the rows.

>>> b = KeyBytes(rows=72, first=np.array([0, 3]), position=np.array([0, 1, 8]), value=np.uint8([0x20, 0x10, 0x01]))
>>> (bitmaps,) = encode(b)
>>> stored = bitmaps[0].as_py()
>>> [stored[begin:end].hex(" ") for begin, end in ((0, 8), (8, 12), (12, 16), (16, 22))]
['3a 30 00 00 01 00 00 00', '00 00 02 00', '10 00 00 00', '05 00 0c 00 40 00']

All of 64 rows: the cookie 12347, 1 - 1 containers, whose bit says runs; key 0, cardinality 64 - 1; 1 run, of row 0 and
63 rows more.

>>> b = KeyBytes(rows=64, first=np.array([0, 8]), position=np.arange(8), value=np.full(8, 0xFF, np.uint8))
>>> encode(b)[0][0].as_py().hex(" ")
'3b 30 00 00 01 00 00 3f 00 01 00 00 00 3f 00'
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.bitmaps.cached_bitmaps import AsStored, CachedBitmaps
from hive_bitmap.bitmaps.containers import ARRAY, ARRAY_MAX, BITS, BITS_SIZE, RUNS, parse
from hive_bitmap.bitmaps.keybytes import KeyBytes
from hive_bitmap.bitmaps.ragged import binary_array, binary_values, offsets_of, segment_sums, spans
from hive_bitmap.bitmaps.writing import byte_lengths, fill_rows, or_rows, or_slices

NAME = "roaring"
FIELDS = (pa.field("_bitmaps", pa.binary()),)


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """The bitmaps of the k keys: one column of k values. Each container takes the form that is smallest."""
    key_of = np.repeat(np.arange(b.keys), np.diff(b.first))
    chunk = b.position >> 13  # 8192 bytes of a plain bitmap are the 65536 rows of a container
    new = np.ones(len(chunk), bool)
    new[1:] = (chunk[1:] != chunk[:-1]) | (key_of[1:] != key_of[:-1])
    start = np.flatnonzero(new)
    bounds = np.append(start, len(chunk))
    row, row_bounds, run_start, run_bounds = _rows_and_runs(b, bounds)
    cardinality, runs = np.diff(row_bounds), np.diff(run_bounds)
    size = np.where(cardinality > ARRAY_MAX, BITS_SIZE, 2 * cardinality)
    kind = np.where(2 + 4 * runs < size, RUNS, np.where(cardinality > ARRAY_MAX, BITS, ARRAY))
    size = np.where(kind == RUNS, 2 + 4 * runs, size)
    data, offsets, at = _headers(np.searchsorted(start, b.first), chunk[start], cardinality, kind, size)

    held = np.repeat(kind == BITS, np.diff(bounds))
    data[np.repeat(at, np.diff(bounds))[held] + (b.position[held] & 8191)] = b.value[held]
    plain = kind == ARRAY
    data[spans(at[plain], size[plain])] = _bytes16(row[np.repeat(plain, cardinality)])
    run_length = np.diff(np.append(run_start, len(row)))
    pairs = np.stack((row[run_start], run_length - 1), axis=1)[np.repeat(kind == RUNS, runs)]
    coded = kind == RUNS
    data[spans(at[coded], np.full(coded.sum(), 2))] = _bytes16(runs[coded])
    data[spans(at[coded] + 2, size[coded] - 2)] = _bytes16(pairs)
    return (binary_array(data, offsets),)


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR the m stored bitmaps into `bits`: bitmap i belongs to a block of rows[i] rows that begins at bits[starts[i]].

    Raises CorruptBitmap, before `bits` is touched, for a bitmap that does not fit its block.
    """
    found = parse(*binary_values(columns[0]), rows)
    base = starts[found.owner] * 8 + (found.key << 16)  # the bit of `bits` that is the container's first row
    plain, coded, dense = (found.kind == kind for kind in (ARRAY, RUNS, BITS))
    or_rows(bits, np.repeat(base[plain], found.cardinality[plain]) + found.array_rows())
    row, length = found.run_rows()
    begin = np.repeat(base[coded], found.runs[coded]) + row
    fill_rows(bits, begin, begin + length)
    room = byte_lengths(rows[found.owner[dense]] - (found.key[dense] << 16))
    or_slices(bits, base[dense] >> 3, found.data, found.at[dense], np.minimum(room, BITS_SIZE))


def hold(columns: Sequence[pa.Array]) -> CachedBitmaps:
    """The bitmaps as they are best kept in memory: as they are stored."""
    return AsStored(columns, decode_into)


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bits each of the m stored bitmaps has set. Raises CorruptBitmap as `decode_into` does."""
    found = parse(*binary_values(columns[0]), rows)
    return segment_sums(found.cardinality, np.searchsorted(found.owner, np.arange(len(rows) + 1)))


def _rows_and_runs(b: KeyBytes, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """The rows (& 0xFFFF) of each container, and where among them runs begin: each with its offsets by container.

    `bounds` are the containers' offsets in the bytes of `b`.
    """
    bit = np.flatnonzero(np.unpackbits(b.value, bitorder="little"))
    row = (b.position[bit >> 3] * 8 + (bit & 7)) & 0xFFFF
    row_bounds = offsets_of(segment_sums(np.bitwise_count(b.value), bounds))
    begins = np.ones(len(row), bool)
    np.not_equal(row[1:], row[:-1] + 1, out=begins[1:])
    begins[row_bounds[:-1]] = True
    run_start = np.flatnonzero(begins)
    return row, row_bounds, run_start, np.searchsorted(run_start, row_bounds)


def _headers(
    first: NDArray[np.int64],
    key: NDArray[np.int64],
    cardinality: NDArray[np.int64],
    kind: NDArray[np.int64],
    size: NDArray[np.int64],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The bitmaps with their headers filled and their containers empty, their offsets, and the containers' positions.

    Bitmap i has the containers [first[i], first[i+1]).
    """
    count = np.diff(first)
    inside = np.arange(len(key)) - np.repeat(first[:-1], count)
    with_runs = segment_sums(kind == RUNS, first) > 0
    fixed = np.where(with_runs, 4 + (count + 7) // 8, 8)
    head = fixed + np.where(with_runs & (count < 4), 4, 8) * count
    offsets = offsets_of(head + segment_sums(size, first))
    before = offsets_of(size)
    at = np.repeat(offsets[:-1] + head - before[first[:-1]], count) + before[:-1]

    data = np.zeros(offsets[-1], np.uint8)
    cookie = np.where(with_runs, 12347 | (count - 1) << 16, 12346)
    data[offsets[:-1, None] + np.arange(4)] = _bytes32(cookie).reshape(-1, 4)
    data[offsets[:-1, None][~with_runs] + np.arange(4, 8)] = _bytes32(count[~with_runs]).reshape(-1, 4)
    coded = np.flatnonzero(kind == RUNS)
    flag = np.repeat(offsets[:-1] + 4, count)[coded] + (inside[coded] >> 3)
    np.bitwise_or.at(data, flag, (1 << (inside[coded] & 7)).astype(np.uint8))
    described = np.stack((key, cardinality - 1), axis=1)
    data[spans(offsets[:-1] + fixed, 4 * count)] = _bytes16(described)
    listed = ~(with_runs & (count < 4))
    position = (at - np.repeat(offsets[:-1], count))[np.repeat(listed, count)]
    data[spans((offsets[:-1] + fixed + 4 * count)[listed], 4 * count[listed])] = _bytes32(position)
    return data, offsets, at


def _bytes16(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The values as 16 bits each, little-endian."""
    return values.astype("<u2").reshape(-1).view(np.uint8)


def _bytes32(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The values as 32 bits each, little-endian."""
    return values.astype("<u4").view(np.uint8)
