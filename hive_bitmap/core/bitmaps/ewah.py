"""Encode and decode EWAH bitmaps in the form of Hive 0.8 to 2.3.

Hive wrote these bitmaps with JavaEWAH 0.3, and Hive's EWAH_BITMAP_* functions read them.

`_bitmaps array<bigint>`: `[sizeInBits, n, bufferLength, word 0 .. word n-1, rlwPosition]`. sizeInBits is the last row +
1, bufferLength the capacity of the Java array, rlwPosition the index of the last marker among the words. A marker
stands for a run of equal words followed by literal words: bit 0 is the bit that the run repeats, bits 1-32 are the
number of words in the run, bits 33-63 the number of literal words. Bit r of word w of the bitmap is row 64 * w + r.
JavaEWAH 0.3.3 and later versions omit bufferLength, and so do not read these arrays. Hive writes the arrays in
https://github.com/apache/hive/blob/rel/release-2.3.9/ql/src/java/org/apache/hadoop/hive/ql/udf/generic/GenericUDAFEWAHBitmap.java

Rows 5, 12 and 64 of a block of 72 rows: the last row is 64, and there are 3 words. Word 0 is the marker, with no run
and 2 literals; the literals have the bits 5 and 12, and the bit 0.

>>> b = KeyBytes(rows=72, first=np.array([0, 3]), position=np.array([0, 1, 8]), value=np.uint8([0x20, 0x10, 0x01]))
>>> (bitmaps,) = encode(b)
>>> bitmaps[0].as_py() == [64 + 1, 3, 4, 2 << 33, 1 << 5 | 1 << 12, 1 << 0, 0]
True

All rows of a block of 64 rows: one marker, with a run of 1 word of ones.

>>> b = KeyBytes(rows=64, first=np.array([0, 8]), position=np.arange(8), value=np.full(8, 0xFF, np.uint8))
>>> encode(b)[0][0].as_py() == [64, 1, 4, 1 << 1 | 1, 0]
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.cached_bitmaps import CachedBitmaps, StoredBitmaps
from hive_bitmap.core.bitmaps.keybytes import KeyBytes, join_full
from hive_bitmap.core.bitmaps.ragged import changes, list_array, list_values, offsets_of, require, segment_sums, spans
from hive_bitmap.core.bitmaps.selection import byte_lengths, fill, or_slices

NAME = "ewah"
FIELDS = (pa.field("_bitmaps", pa.list_(pa.int64())),)

_FULL = 2**64 - 1
# For each byte, the position of its highest set bit plus 1.
_LENGTH = np.array([number.bit_length() for number in range(256)])


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """Encode the bitmaps of the k keys.

    Returns the column `_bitmaps` of k values. Each value is the list of numbers that Hive's EWAH_BITMAP would return.
    """
    begin, index, word, run = _words(b)
    full = word == _FULL
    zeros = np.diff(index + run, prepend=0) - run
    zeros[begin[:-1]] = index[begin[:-1]]
    # Each entry is a literal, or the marker of a run of full words. An entry needs a marker before it if it follows
    # zero words, or if it is a literal at the beginning of a bitmap.
    leads = zeros > 0
    leads[begin[:-1]] |= ~full[begin[:-1]]
    end = offsets_of(leads + 1)
    n = np.diff(end[begin])
    offsets = offsets_of(n + 4)
    at = end[1:] - 1 + np.repeat(offsets[:-1] + 3 - end[begin[:-1]], np.diff(begin))
    out = np.zeros(offsets[-1], np.int64)
    out[at] = word.view(np.int64)
    out[at[full]] = 1 | run[full] << 1
    out[at[leads] - 1] = zeros[leads] << 1
    last = b.first[1:] - 1
    out[offsets[:-1]] = b.position[last] * 8 + _LENGTH[b.value[last]]
    out[offsets[:-1] + 1] = n
    out[offsets[:-1] + 2] = np.maximum(4, n + 1)  # the capacity after Hive has ORed the bitmap of a single mapper
    _count_literals(out, offsets, np.concatenate((at[full], at[leads] - 1)))
    return (list_array(out, offsets),)


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR m stored bitmaps into `bits`.

    `columns` has only the column `_bitmaps`, with m values. Bitmap i belongs to a block of rows[i] rows that begins at
    bits[starts[i]]. Raises CorruptBitmap, before `bits` is changed, for a bitmap that does not fit its block.
    """
    stored = _read(columns, rows)
    start = starts[stored.owner] + 8 * stored.index
    ones = np.flatnonzero(stored.ones)
    fill(bits, start[ones], 8 * stored.run[ones])
    filled = np.flatnonzero(stored.literals)  # markers with literals
    room = byte_lengths(rows)[stored.owner] - 8 * (stored.index + stored.run)
    length = np.clip(8 * stored.literals, 0, room)[filled]  # the last word may extend beyond the block, with zeros
    begin = 8 * (stored.marker[filled] + 1)
    data = stored.numbers.astype("<i8", copy=False).view(np.uint8)
    or_slices(bits, (start + 8 * stored.run)[filled], data, begin, length)


def to_cached(columns: Sequence[pa.Array]) -> CachedBitmaps:
    """Return the bitmaps in the form that is cached.

    The stored columns are cached, and each use decodes them.
    """
    return StoredBitmaps(columns, decode_into)


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the set bits of each of m stored bitmaps.

    `columns` has only the column `_bitmaps`, and `rows` the number of rows of each bitmap's block. Raises CorruptBitmap
    as `decode_into` does.
    """
    stored = _read(columns, rows)
    bits = np.bitwise_count(stored.numbers.view(np.uint64)[spans(stored.marker + 1, stored.literals)])
    counted = segment_sums(bits, offsets_of(stored.literals)) + 64 * stored.run * stored.ones
    return segment_sums(counted, np.searchsorted(stored.owner, np.arange(len(rows) + 1)))


@dataclass(frozen=True, kw_only=True)
class _StoredWords:
    """The markers of checked bitmaps, in order.

    `numbers` has the stored arrays of all bitmaps, end to end. Each other array has one entry for each marker.
    """

    numbers: NDArray[np.int64]  # the stored arrays, end to end
    marker: NDArray[np.int64]  # position of the marker in `numbers`
    owner: NDArray[np.int64]  # number of the marker's bitmap
    index: NDArray[np.int64]  # word of the decoded bitmap at which the marker's run begins
    ones: NDArray[np.bool_]  # whether the run consists of ones
    run: NDArray[np.int64]  # number of words in the run
    literals: NDArray[np.int64]  # number of literal words after the marker


def _words(b: KeyBytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """Return the non-zero 64-bit words of each key's bitmap.

    A run of adjacent full words is one entry. Returns the offsets of the keys' entries, then for each entry the index
    of its first word, the word, and the number of words.
    """
    index = b.position >> 3
    new = changes(index)
    new[b.first[:-1]] = True
    start = np.flatnonzero(new)
    shifted = b.value.astype(np.uint64) << (8 * (b.position & 7)).astype(np.uint64)
    word = np.bitwise_or.reduceat(shifted, start) if len(start) else shifted
    return join_full(np.searchsorted(start, b.first), index[start], word, _FULL)


def _count_literals(out: NDArray[np.int64], offsets: NDArray[np.int64], markers: NDArray[np.int64]) -> None:
    """Write the number of literals into each marker.

    `out` has the stored numbers of all bitmaps; bitmap i has out[offsets[i]:offsets[i+1]]. `markers` has the positions
    of all markers in `out`. The last number of each bitmap is also written: rlwPosition, the index of its last marker
    among its words.
    """
    end = offsets[1:] - 1
    is_stop = np.zeros(len(out), bool)
    is_stop[markers] = is_stop[end] = True
    stop = np.flatnonzero(is_stop)
    last = np.searchsorted(stop, end) - 1
    literals = np.diff(stop) - 1
    out[stop[:-1]] |= literals << 33  # this also writes to the last fields, which the next line sets
    out[end] = stop[last] - offsets[:-1] - 3


def _read(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> _StoredWords:
    """Return the markers of stored bitmaps, checked against their blocks.

    `columns` has only the column `_bitmaps`, and `rows` the number of rows of each bitmap's block. Raises CorruptBitmap
    for a bitmap that violates the format or has a row beyond the end of its block.
    """
    numbers, offsets = list_values(columns[0])
    begin, end = offsets[:-1], offsets[1:] - 1
    require(end - begin >= 4, "it has less than 5 numbers")
    size, n, capacity = numbers[begin], numbers[begin + 1], numbers[begin + 2]
    require((n == end - begin - 3) & (capacity >= n), "its number of words, or its capacity, is wrong")
    require((size >= 0) & (size <= rows), "it has more rows than its block")
    marker, owner = _markers(numbers, begin + 3, end)
    word = numbers[marker].view(np.uint64)
    ones, run, literals = word & 1 == 1, (word >> 1 & 0xFFFFFFFF).astype(np.int64), (word >> 33).astype(np.int64)
    last = np.searchsorted(owner, np.arange(len(rows)), "right") - 1
    require(marker[last] == begin + 3 + numbers[end], "its last field is not its last marker")
    before = offsets_of(run + literals)
    index = before[:-1] - before[np.searchsorted(owner, np.arange(len(rows)))][owner]

    inside = np.ones(len(rows), bool)
    inside[owner[ones & (run > 0) & (64 * (index + run) > size[owner])]] = False
    room = np.repeat(size[owner], literals) - 64 * spans(index + run, literals)
    tail = np.flatnonzero(room < 64)
    over = numbers.view(np.uint64)[spans(marker + 1, literals)[tail]] >> np.clip(room[tail], 0, 63).astype(np.uint64)
    inside[np.repeat(owner, literals)[tail[over != 0]]] = False
    require(inside, "it has bits behind its last row")
    return _StoredWords(numbers=numbers, marker=marker, owner=owner, index=index, ones=ones, run=run, literals=literals)


def _markers(
    numbers: NDArray[np.int64], first: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the position of each marker and the number of its bitmap.

    Bitmap i has the words at first[i] to end[i] (exclusive) of `numbers`, and begins with a marker. The number of
    literals in a marker gives the position of the next marker. All markers are found in log2(markers) rounds, by
    pointer jumping: round n = 0, 1, .. finds the markers that are 2**n markers after a marker already found. Raises
    CorruptBitmap if literals reach beyond the words of their bitmap.
    """
    stay = len(numbers)
    jump = np.append(np.minimum(np.arange(1, stay + 1) + (numbers.view(np.uint64) >> 33).astype(np.int64), stay), stay)
    jump[end] = end
    following = jump
    is_marker = np.zeros(stay + 1, bool)
    is_marker[first] = True
    count = 0
    while count != (marker := np.flatnonzero(is_marker)).size:
        count = len(marker)
        is_marker[jump[marker]] = True
        jump = jump[jump]
    is_marker[end] = is_marker[stay] = False
    marker = np.flatnonzero(is_marker)
    owner = np.searchsorted(end, marker)
    fits = np.ones(len(end), bool)
    fits[owner[following[marker] > end[owner]]] = False
    require(fits, "its literals reach beyond its words")
    return marker, owner
