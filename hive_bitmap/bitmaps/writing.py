"""Writing into a selection: bytes, runs of bytes, runs of rows. Always an OR, whatever meets in a byte.

Whole-array operations throughout; loops only over slices so long that a slice costs less than the indexes of its bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hive_bitmap.bitmaps.ragged import spans

_LONG = 64  # bytes of a run of 0xFF: from here on it is filled by a slice
_WIDE = 256  # mean bytes of a sequence: from here on each is one slice


def byte_lengths(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """ceil(rows / 8): the bytes of blocks of so many rows."""
    return (rows + 7) // 8


def tail_bits(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bits of a block's last byte that stand for rows.

    >>> tail_bits(np.array([1, 7, 8, 10])).tolist()
    [1, 127, 255, 3]
    """
    return (0xFF >> (-rows % 8)).astype(np.uint8)


def or_bytes(bits: NDArray[np.uint8], at: NDArray[np.int64], value: NDArray[np.uint8]) -> None:
    """bits[at] |= value, also where `at` repeats.

    One indexed OR keeps the last of the values that meet in a byte. Those not yet in place go another round, and each
    brings a bit more into every such byte, so there are at most eight. (numpy's `bitwise_or.at` takes twice as long.)
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
    """OR the bytes [begins[i], begins[i] + lengths[i]) of `data` into `bits` from starts[i] on."""
    if lengths.sum() < _WIDE * len(lengths):
        source = spans(begins, lengths)
        held = np.flatnonzero(data[source])
        or_bytes(bits, spans(starts, lengths)[held], data[source[held]])
        return
    for start, begin, length in zip(starts.tolist(), begins.tolist(), lengths.tolist(), strict=True):
        bits[start : start + length] |= data[begin : begin + length]


def fill(bits: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """Set every bit of the bytes [starts[i], starts[i] + lengths[i])."""
    short = lengths < _LONG
    bits[spans(starts[short], lengths[short])] = 0xFF
    for start, length in zip(starts[~short].tolist(), lengths[~short].tolist(), strict=True):
        bits[start : start + length] = 0xFF


def or_rows(bits: NDArray[np.uint8], rows: NDArray[np.int64]) -> None:
    """Set the bits with these numbers, counted from the first byte of `bits`."""
    byte = rows >> 3
    new = np.ones(len(rows), bool)
    np.not_equal(byte[1:], byte[:-1], out=new[1:])
    start = np.flatnonzero(new)
    if len(start):  # neighbours in one byte first become one value: or_bytes then has little to do twice
        or_bytes(bits, byte[start], np.bitwise_or.reduceat((1 << (rows & 7)).astype(np.uint8), start))


def fill_rows(bits: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
    """Set the bits [begins[i], ends[i]), counted from the first byte of `bits`; none of these ranges is empty."""
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
