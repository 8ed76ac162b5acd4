"""OR bytes, runs of bytes, and runs of rows into a selection.

Several of them may fall into the same byte. All functions use whole-array operations. They loop only over slices that
are long enough for copying a slice to be faster than indexing its bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.ragged import changes, spans

_LONG = 64  # a run of 0xFF of so many bytes or more is filled as a slice
_WIDE = 256  # sequences of this mean size in bytes or more are ORed as slices


def byte_lengths(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ceil(rows / 8).

    This is the size in bytes of the bitmap of a block with so many rows.
    """
    return (rows + 7) // 8


def tail_bits(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return a mask of the used bits of a block's last byte.

    These are the bits that stand for rows.

    >>> tail_bits(np.array([1, 7, 8, 10])).tolist()
    [1, 127, 255, 3]
    """
    return (0xFF >> (-rows % 8)).astype(np.uint8)


def or_bytes(bits: NDArray[np.uint8], at: NDArray[np.int64], value: NDArray[np.uint8]) -> None:
    """Compute bits[at] |= value, also for repeated positions.

    For a position that occurs in `at` several times, numpy's indexed OR keeps only one of the values, so the loop
    repeats it for the values that are not yet in place. Each round adds at least one bit to every such byte, so there
    are at most eight. (numpy's `bitwise_or.at` takes twice as long.)
    """
    while len(at):
        bits[at] |= value
        lost = np.flatnonzero((bits[at] & value) != value)
        at, value = at[lost], value[lost]


def or_slices(
    bits: NDArray[np.uint8],
    starts: NDArray[np.int64],
    data: NDArray[np.uint8],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """OR slices of `data` into `bits`.

    Slice i is data[begins[i]:begins[i]+lengths[i]], and goes to starts[i].
    """
    if lengths.sum() < _WIDE * len(lengths):
        source = spans(begins, lengths)
        filled = np.flatnonzero(data[source])
        or_bytes(bits, spans(starts, lengths)[filled], data[source[filled]])
        return
    for start, begin, length in zip(starts.tolist(), begins.tolist(), lengths.tolist(), strict=True):
        bits[start : start + length] |= data[begin : begin + length]


def fill(bits: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """Set every bit of several ranges of bytes.

    Range i is bits[starts[i]:starts[i]+lengths[i]].
    """
    short = lengths < _LONG
    bits[spans(starts[short], lengths[short])] = 0xFF
    for start, length in zip(starts[~short].tolist(), lengths[~short].tolist(), strict=True):
        bits[start : start + length] = 0xFF


def or_rows(bits: NDArray[np.uint8], rows: NDArray[np.int64]) -> None:
    """Set the bits with these numbers.

    They are counted from the first byte of `bits`.
    """
    byte = rows >> 3
    start = np.flatnonzero(changes(byte))
    if len(start):  # adjacent rows of one byte are combined first, which leaves or_bytes few repeated positions
        or_bytes(bits, byte[start], np.bitwise_or.reduceat((1 << (rows & 7)).astype(np.uint8), start))


def fill_rows(bits: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
    """Set several ranges of bits.

    Range i is begins[i] to ends[i] (exclusive), counted from the first byte of `bits`. No range may be empty.
    """
    first, last = begins >> 3, ends >> 3
    head, tail = (0xFF << (begins & 7)) & 0xFF, (1 << (ends & 7)) - 1
    inside = first == last
    or_bytes(bits, first[inside], (head & tail)[inside].astype(np.uint8))
    begun = ~inside & (head != 0xFF)
    or_bytes(bits, first[begun], head[begun].astype(np.uint8))
    ended = ~inside & (tail != 0)
    or_bytes(bits, last[ended], tail[ended].astype(np.uint8))
    first = first + (head != 0xFF)
    fill(bits, first[~inside], (last - first)[~inside])
