"""Parse Roaring's portable serialisation.

The containers of many bitmaps are located and checked at once. `roaring` describes the layout. The position of a
container depends on the sizes of the preceding containers, so `_locate` loops: step i locates container i of every
bitmap. The number of steps is the number of containers of the largest bitmap, at most one for every 65536 rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.ragged import offsets_of, require, segment_sums, spans
from hive_bitmap.core.bitmaps.selection import byte_lengths, tail_bits

ARRAY, BITS, RUNS = 0, 1, 2
BITS_SIZE = 8192  # bytes of a container of kind BITS
ARRAY_MAX = 4096  # most rows of a container of kind ARRAY; with more rows BITS is smaller


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
    at: NDArray[np.int64]  # c: position of its content in `data`
    runs: NDArray[np.int64]  # c: number of runs, 0 for other kinds than RUNS

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
        # A corrupt bitmap may put a container beyond the data. Read anything then: `require` rejects the bitmap below.
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
    """Require that every part of some bitmaps is good.

    A part is a container, or an item of a container. owner[i] is the number of the bitmap that part i belongs to;
    `bitmaps` is the number of all bitmaps. Raises CorruptBitmap, naming the first bitmap that owns a part for which
    `good` is false. `what` says what is wrong with this bitmap.
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
