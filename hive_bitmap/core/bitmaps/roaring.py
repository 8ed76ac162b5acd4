"""Roaring bitmaps in their portable serialisation.

CRoaring and the Java and Go libraries write this serialisation. The format:
https://github.com/RoaringBitmap/RoaringFormatSpec#standard-32-bit-roaring-bitmap.

`_bitmaps binary`, little-endian, consists of:

* a cookie. Without run containers it is 12346, followed by the number of containers in 32 bits. With run containers it
  is 12347 with the number of containers less one in its upper 16 bits, followed by one bit a container (1: runs).
* for each container its key (row >> 16) and its cardinality less one, 16 bits each.
* for each container its position, 32 bits; omitted if there are run containers and fewer than 4 containers.
* the containers: up to 4096 rows, each as row & 0xFFFF in 16 bits; or 8192 bytes of bits; or the number of runs, then
  the first row and the length less one of each run, 16 bits each.

Rows 5, 12 and 64 of a block of 72 rows: cookie 12346, 1 container; key 0, cardinality 3 - 1; position 16; the rows.

>>> b = KeyBytes(rows=72, first=np.array([0, 3]), position=np.array([0, 1, 8]), value=np.uint8([0x20, 0x10, 0x01]))
>>> (bitmaps,) = encode(b)
>>> stored = bitmaps[0].as_py()
>>> [stored[begin:end].hex(" ") for begin, end in ((0, 8), (8, 12), (12, 16), (16, 22))]
['3a 30 00 00 01 00 00 00', '00 00 02 00', '10 00 00 00', '05 00 0c 00 40 00']

All rows of a block of 64 rows: cookie 12347, number of containers 1 - 1, the bit 1 because the container has runs; key
0, cardinality 64 - 1; number of runs 1, first row 0, length 64 - 1.

>>> b = KeyBytes(rows=64, first=np.array([0, 8]), position=np.arange(8), value=np.full(8, 0xFF, np.uint8))
>>> encode(b)[0][0].as_py().hex(" ")
'3b 30 00 00 01 00 00 3f 00 01 00 00 00 3f 00'
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.cached_bitmaps import CachedBitmaps, StoredBitmaps
from hive_bitmap.core.bitmaps.containers import ARRAY, ARRAY_MAX, BITS, BITS_SIZE, RUNS, parse
from hive_bitmap.core.bitmaps.keybytes import KeyBytes
from hive_bitmap.core.bitmaps.ragged import binary_array, binary_values, changes, offsets_of, segment_sums, spans
from hive_bitmap.core.bitmaps.selection import byte_lengths, fill_rows, or_rows, or_slices

NAME = "roaring"
FIELDS = (pa.field("_bitmaps", pa.binary()),)


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """Encode the bitmaps of the k keys of a block, whose non-zero bytes are `b`.

    Returns one column of k values. Each container has the kind that takes the fewest bytes.
    """
    key_of = np.repeat(np.arange(b.keys), np.diff(b.first))
    chunk = b.position >> 13  # a container's 65536 rows are 8192 bytes of a plain bitmap
    start = np.flatnonzero(changes(chunk) | changes(key_of))
    bounds = np.append(start, len(chunk))
    row, row_bounds, run_start, run_bounds = _rows_and_runs(b, bounds)
    cardinality, runs = np.diff(row_bounds), np.diff(run_bounds)
    size = np.where(cardinality > ARRAY_MAX, BITS_SIZE, 2 * cardinality)
    kind = np.where(2 + 4 * runs < size, RUNS, np.where(cardinality > ARRAY_MAX, BITS, ARRAY))
    size = np.where(kind == RUNS, 2 + 4 * runs, size)
    data, offsets, at = _headers(np.searchsorted(start, b.first), chunk[start], cardinality, kind, size)

    dense = np.repeat(kind == BITS, np.diff(bounds))
    data[np.repeat(at, np.diff(bounds))[dense] + (b.position[dense] & 8191)] = b.value[dense]
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
    """OR m stored bitmaps into `bits`.

    Bitmap i belongs to a block of rows[i] rows that begins at bits[starts[i]]. Raises CorruptBitmap, before `bits` is
    changed, for a bitmap that does not fit its block.
    """
    containers = parse(*binary_values(columns[0]), rows)
    base = starts[containers.owner] * 8 + (containers.key << 16)  # bit in `bits` of the first row of the container
    plain, coded, dense = (containers.kind == kind for kind in (ARRAY, RUNS, BITS))
    or_rows(bits, np.repeat(base[plain], containers.cardinality[plain]) + containers.array_rows())
    row, length = containers.run_rows()
    begin = np.repeat(base[coded], containers.runs[coded]) + row
    fill_rows(bits, begin, begin + length)
    room = byte_lengths(rows[containers.owner[dense]] - (containers.key[dense] << 16))
    or_slices(bits, base[dense] >> 3, containers.data, containers.at[dense], np.minimum(room, BITS_SIZE))


def to_cached(columns: Sequence[pa.Array]) -> CachedBitmaps:
    """Return the bitmaps in the form that is cached.

    The stored columns are cached unchanged. Each use decodes them.
    """
    return StoredBitmaps(columns, decode_into)


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the set bits of each of m stored bitmaps.

    Raises CorruptBitmap as `decode_into` does.
    """
    containers = parse(*binary_values(columns[0]), rows)
    return segment_sums(containers.cardinality, np.searchsorted(containers.owner, np.arange(len(rows) + 1)))


def _rows_and_runs(b: KeyBytes, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return the rows of each container, and the runs among them.

    Returns four arrays: the rows (row & 0xFFFF), the offsets of each container's rows, the positions of the rows that
    begin a run, and the offsets of each container's runs. Container i has the entries bounds[i] to bounds[i+1]
    (exclusive) of `b`.
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
    """Lay out bitmaps: return bytes with complete headers and zeroed containers.

    Also returns the offsets of the bitmaps in these bytes, and the positions of the containers. Bitmap i has the
    containers first[i] to first[i+1] (exclusive). The other arguments have an item for each container: `key` is the
    upper 16 bits of its rows, `cardinality` the number of its rows, `kind` is ARRAY, BITS or RUNS, and `size` is its
    size in bytes.
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
    """Return the bytes of the values as little-endian 16-bit numbers."""
    return values.astype("<u2").reshape(-1).view(np.uint8)


def _bytes32(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the bytes of the values as little-endian 32-bit numbers."""
    return values.astype("<u4").view(np.uint8)
