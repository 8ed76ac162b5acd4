"""Encode and decode Roaring bitmaps in their portable serialisation.

CRoaring and the Java and Go libraries write this serialisation. The format:
https://github.com/RoaringBitmap/RoaringFormatSpec#standard-32-bit-roaring-bitmap.

`_bitmaps binary`, little-endian, consists of:

* a cookie. Without run containers it is 12346, followed by the number of containers in 32 bits. With run containers it
  is 12347 with the number of containers minus 1 in its upper 16 bits, followed by one bit per container (1: runs).
* for each container its key (row >> 16) and its cardinality minus 1, 16 bits each.
* for each container its position, 32 bits; omitted if there are run containers and fewer than 4 containers.
* the containers: up to 4096 rows, each as row & 0xFFFF in 16 bits; or 8192 bytes of bits; or the number of runs, then
  the first row and the length minus 1 of each run, 16 bits each.

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

The containers of many bitmaps are located and checked at once. The position of a container depends on the sizes of the
preceding containers, so `_locate` loops: step i locates container i of every bitmap. The number of steps is the number
of containers of the largest bitmap, at most one for every 65536 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.cached_bitmaps import CachedBitmaps, StoredBitmaps
from hive_bitmap.core.bitmaps.keybytes import KeyBytes
from hive_bitmap.core.bitmaps.ragged import (
    binary_array,
    binary_values,
    changes,
    offsets_of,
    require,
    segment_sums,
    spans,
)
from hive_bitmap.core.bitmaps.selection import byte_lengths, fill_rows, or_rows, or_slices, tail_bits

ARRAY, BITS, RUNS = 0, 1, 2
BITS_SIZE = 8192  # bytes of a container of kind BITS
ARRAY_MAX = 4096  # most rows of a container of kind ARRAY; for more rows, BITS is smaller
NAME = "roaring"
FIELDS = (pa.field("_bitmaps", pa.binary()),)


@dataclass(frozen=True, kw_only=True)
class Containers:
    """The position, kind and size of c containers.

    The containers belong to m bitmaps, whose stored bytes are `data`, and are in the order of the bitmaps. Each other
    array has one entry for each container.
    """

    data: NDArray[np.uint8]  # the stored bytes of all bitmaps
    owner: NDArray[np.int64]  # c: number of the bitmap
    key: NDArray[np.int64]  # c: rows of the container >> 16
    cardinality: NDArray[np.int64]  # c
    kind: NDArray[np.int64]  # c: ARRAY, BITS or RUNS
    at: NDArray[np.int64]  # c: position of the container's content in `data`
    runs: NDArray[np.int64]  # c: number of runs; 0 unless the kind is RUNS

    def array_rows(self) -> NDArray[np.int64]:
        """Return the row numbers in containers of kind ARRAY.

        A number is row & 0xFFFF. The numbers of all containers are laid end to end.
        """
        chosen = self.kind == ARRAY
        return _numbers(self.data, self.at[chosen], self.cardinality[chosen])

    def run_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first row and the length of each run.

        The runs of all containers of kind RUNS are laid end to end. The first row is row & 0xFFFF.
        """
        chosen = self.kind == RUNS
        pairs = _numbers(self.data, self.at[chosen] + 2, 2 * self.runs[chosen])
        return pairs[0::2], pairs[1::2] + 1


def parse(data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> Containers:
    """Locate and check the containers of m bitmaps.

    Bitmap i is data[offsets[i]:offsets[i+1]], and its block has rows[i] rows. Raises CorruptBitmap for a bitmap that
    violates the format or has a row beyond the end of its block.
    """
    begin, end = offsets[:-1], offsets[1:]
    require(end - begin >= 8, "it is shorter than the shortest header, 8 bytes")
    low, high = _u16(data, begin), _u16(data, begin + 2)
    with_runs = low == 12347
    require(with_runs | ((low == 12346) & (high == 0)), "its cookie is neither 12346 nor 12347")
    count = np.where(with_runs, high + 1, _u32(data, begin + 4))
    require(count <= (rows + 0xFFFF) >> 16, "it has more containers than its block can fill")
    has_positions = ~with_runs | (count >= 4)
    described = begin + np.where(with_runs, 4 + (count + 7) // 8, 8)
    content = described + np.where(has_positions, 8, 4) * count
    require(content <= end, "its header is cut off")

    owner = np.repeat(np.arange(len(count)), count)
    inside = np.arange(len(owner)) - offsets_of(count)[owner]
    field = described[owner] + 4 * inside
    key, cardinality = _u16(data, field), _u16(data, field + 2) + 1
    flag = np.where(with_runs[owner], begin[owner] + 4 + (inside >> 3), 0)
    coded = with_runs[owner] & (data[flag] >> (inside & 7) & 1 == 1)
    kind = np.where(coded, RUNS, np.where(cardinality > ARRAY_MAX, BITS, ARRAY))
    at, runs = _locate(data, content, end, count, kind, cardinality)
    field = (described + 4 * count)[owner] + 4 * inside
    listed = has_positions[owner]
    right = _u32(data, field[listed]) == (at - begin[owner])[listed]
    _require_each(right, owner[listed], len(rows), "a position in its header is wrong")
    containers = Containers(data=data, owner=owner, key=key, cardinality=cardinality, kind=kind, at=at, runs=runs)
    _check(containers, rows)
    return containers


def _locate(
    data: NDArray[np.uint8],
    content: NDArray[np.int64],
    end: NDArray[np.int64],
    count: NDArray[np.int64],
    kind: NDArray[np.int64],
    cardinality: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the position of each container and its number of runs.

    For each bitmap, `content` has the position of its first container, `end` the position after its last byte, and
    `count` its number of containers. `kind` and `cardinality` have an item for each container. Raises CorruptBitmap if
    the containers of a bitmap do not end where the bitmap ends.
    """
    first = offsets_of(count)
    at, runs = np.zeros(len(kind), np.int64), np.zeros(len(kind), np.int64)
    position = content.copy()
    for step in range(int(count.max()) if len(count) else 0):
        live = np.flatnonzero(count > step)
        chosen = first[live] + step
        at[chosen] = position[live]
        coded = chosen[kind[chosen] == RUNS]
        # In a corrupt bitmap, a container may be beyond the data. The number that is then read does not matter, because
        # `require` rejects the bitmap below.
        runs[coded] = _u16(data, np.minimum(at[coded], len(data) - 2))
        plain = np.where(kind[chosen] == BITS, BITS_SIZE, 2 * cardinality[chosen])
        position[live] += np.where(kind[chosen] == RUNS, 2 + 4 * runs[chosen], plain)
    require(position == end, "its containers do not end where it ends")
    return at, runs


def _check(containers: Containers, rows: NDArray[np.int64]) -> None:
    """Check the order, extent and size of every container.

    `rows` has the number of rows of each bitmap's block. Raises CorruptBitmap unless every container is ordered, inside
    its block, and as large as its header says.
    """
    m, owner, cardinality = len(rows), containers.owner, containers.cardinality
    same = owner[1:] == owner[:-1]
    _require_each((containers.key[1:] > containers.key[:-1]) | ~same, owner[1:], m, "its containers are out of order")
    room = np.minimum(rows[owner] - (containers.key << 16), 0x10000)
    _require_each(room > 0, owner, m, "it has a container behind the last row")

    plain = containers.kind == ARRAY
    row, holder = containers.array_rows(), np.repeat(np.flatnonzero(plain), cardinality[plain])
    ordered = (row[1:] > row[:-1]) | (holder[1:] != holder[:-1])
    _require_each(ordered, owner[holder[1:]], m, "an array of rows is out of order")
    _require_each(row < room[holder], owner[holder], m, "it has a row behind the last row")

    coded = containers.kind == RUNS
    (row, length), holder = containers.run_rows(), np.repeat(np.flatnonzero(coded), containers.runs[coded])
    ordered = (row[1:] >= (row + length)[:-1]) | (holder[1:] != holder[:-1])
    _require_each(ordered, owner[holder[1:]], m, "its runs are out of order")
    _require_each(row + length <= room[holder], owner[holder], m, "it has a run behind the last row")
    counted = segment_sums(length, offsets_of(containers.runs[coded]))
    _require_each(counted == cardinality[coded], owner[coded], m, "a cardinality in its header is wrong")

    dense = containers.kind == BITS
    at, owner, room = containers.at[dense], owner[dense], room[dense]
    size = np.full(len(at), BITS_SIZE)
    counted = segment_sums(np.bitwise_count(containers.data[spans(at, size)]), offsets_of(size))
    _require_each(counted == cardinality[dense], owner, m, "a cardinality in its header is wrong")
    used = byte_lengths(room)
    over = segment_sums(containers.data[spans(at + used, size - used)], offsets_of(size - used))
    inside = (over == 0) & (containers.data[at + used - 1] & ~tail_bits(room) == 0)
    _require_each(inside, owner, m, "it has bits behind the last row")


def _require_each(good: NDArray[np.bool_], owner: NDArray[np.int64], bitmaps: int, what: str) -> None:
    """Raise CorruptBitmap unless `good` is true for every part of every bitmap.

    A part is a container, or an item of a container. owner[i] is the number of the bitmap that part i belongs to;
    `bitmaps` is the number of all bitmaps. The error names the first bitmap with a part that is not good, and `what`
    says what is wrong with it.
    """
    if not good.all():
        whole = np.ones(bitmaps, bool)
        whole[owner[~good]] = False
        require(whole, what)


def _numbers(data: NDArray[np.uint8], at: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the 16-bit numbers of some ranges, end to end.

    Range i has count[i] numbers, and begins at data[at[i]].
    """
    return data[spans(at, 2 * count)].view("<u2").astype(np.int64)


def _u16(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the little-endian 16-bit numbers at these positions of `data`."""
    return data[at] | data[at + 1].astype(np.int64) << 8


def _u32(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the little-endian 32-bit numbers at these positions of `data`."""
    return _u16(data, at) | _u16(data, at + 2) << 16


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """Encode the bitmaps of the k keys of a block.

    `b` has the non-zero bytes of the bitmaps. Returns one column of k values. Each container has the kind that takes
    the fewest bytes.
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

    The stored columns are cached, and each use decodes them.
    """
    return StoredBitmaps(columns, decode_into)


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the set bits of each of m stored bitmaps.

    Raises CorruptBitmap as `decode_into` does.
    """
    containers = parse(*binary_values(columns[0]), rows)
    return segment_sums(containers.cardinality, np.searchsorted(containers.owner, np.arange(len(rows) + 1)))


def _rows_and_runs(b: KeyBytes, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return the rows and the runs of rows of each container.

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
    """Write the headers of bitmaps, and leave room for their containers.

    Returns the bytes of the bitmaps, with zeros in the containers, the offsets of the bitmaps in these bytes, and the
    positions of the containers. Bitmap i has the containers first[i] to first[i+1] (exclusive). The other arguments
    have an item for each container: `key` is the upper 16 bits of its rows, `cardinality` the number of its rows,
    `kind` is ARRAY, BITS or RUNS, and `size` is its size in bytes.
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
