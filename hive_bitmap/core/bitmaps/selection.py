"""Combine and count selections, which have one bit for each row of several blocks.

A selection is a uint8 array, least significant bit first. Each block begins at a byte boundary, and its last byte is
padded with zeros. AND and OR of two selections of the same layout are numpy's `&` and `|`. Because the padding must
stay 0, do not complement a selection with `~`. Instead, subtract the selection from another selection with `and_not`.

The functions that OR bytes, runs of bytes or runs of rows into a selection use whole-array operations; several rows or
runs may fall into the same byte. A loop handles only long slices, for which copying the slice is faster than indexing
its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hive_bitmap.core.bitmaps.ragged import changes, offsets_of, segment_sums, spans

_LONG = 64  # least bytes of a run of 0xFF that is filled as a slice
_WIDE = 256  # least mean size in bytes of sequences that are ORed as slices


def byte_lengths(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the size in bytes of each block's bitmap: ceil(rows / 8).

    `rows` has the number of rows of each block.
    """
    return (rows + 7) // 8


def tail_bits(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return for each block a mask of the used bits of its last byte.

    `rows` has the number of rows of each block. A block uses the lowest bits of its last byte; the others are padding.

    >>> tail_bits(np.array([1, 7, 8, 10])).tolist()
    [1, 127, 255, 3]
    """
    return (0xFF >> (-rows % 8)).astype(np.uint8)


def or_bytes(bits: NDArray[np.uint8], at: NDArray[np.int64], value: NDArray[np.uint8]) -> None:
    """Compute bits[at] |= value, where positions may be repeated.

    For a position that occurs in `at` several times, numpy's indexed OR keeps only one of the values. So a loop repeats
    the OR for the values whose bits are not all set. Each round sets at least one more bit of every unfinished byte, so
    there are at most eight rounds. (numpy's `bitwise_or.at` takes twice as long.)
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

    Slice i is data[begins[i]:begins[i]+lengths[i]]. Its first byte goes to bits[starts[i]].
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
    """Set the bits with the numbers `rows`, counted from the first byte of `bits`."""
    byte = rows >> 3
    start = np.flatnonzero(changes(byte))
    if len(start):  # adjacent rows of one byte are combined first, so that or_bytes gets few repeated positions
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


@dataclass(frozen=True)
class BitLayout:
    """The positions of the b blocks of a selection.

    The selection is a uint8 array of starts[b] bytes.
    """

    rows: NDArray[np.int64]  # b: number of rows of each block
    starts: NDArray[np.int64]  # b + 1: position of the first byte of each block, and the end of the last block


def layout(rows: ArrayLike) -> BitLayout:
    """Return the layout of blocks with these numbers of rows.

    The blocks keep this order.

    >>> layout([9, 0, 8]).starts.tolist()
    [0, 2, 2, 3]
    """
    counted = np.asarray(rows, np.int64)
    return BitLayout(counted, offsets_of(byte_lengths(counted)))


def nothing(where: BitLayout) -> NDArray[np.uint8]:
    """Return a selection of no row, with the layout `where`."""
    return np.zeros(where.starts[-1], np.uint8)


def everything(where: BitLayout) -> NDArray[np.uint8]:
    """Return a selection of every row of every block of the layout `where`."""
    bits = np.full(where.starts[-1], 0xFF, np.uint8)
    _trim(bits, where, np.arange(len(where.rows)))
    return bits


def everything_in(where: BitLayout, blocks: ArrayLike) -> NDArray[np.uint8]:
    """Return a selection of every row of some blocks, and of no other row.

    `blocks` has the positions of these blocks in the layout `where`.
    """
    chosen = np.asarray(blocks, np.int64)
    bits = nothing(where)
    fill(bits, where.starts[chosen], where.starts[chosen + 1] - where.starts[chosen])
    _trim(bits, where, chosen)
    return bits


def and_not(bits: NDArray[np.uint8], removed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the rows of `bits` that are not in `removed`.

    The arguments and the result are selections of the same layout.
    """
    return bits & ~removed


def counts(bits: NDArray[np.uint8], where: BitLayout) -> NDArray[np.int64]:
    """Count the selected rows of each block.

    The result has one int64 for each block of the layout.

    >>> where = layout([9, 0, 8])
    >>> counts(np.array([0b101, 1, 0xFF], np.uint8), where).tolist()
    [3, 0, 8]
    """
    return segment_sums(np.bitwise_count(bits), where.starts)


def any_in(bits: NDArray[np.uint8], where: BitLayout) -> NDArray[np.bool_]:
    """Return for each block of the layout whether it has a selected row."""
    has_rows = np.zeros(len(where.rows), bool)
    filled = np.flatnonzero(where.rows)
    if len(filled):
        has_rows[filled] = np.bitwise_or.reduceat(bits, where.starts[filled]) != 0
    return has_rows


def rows(bits: NDArray[np.uint8], where: BitLayout, block: int) -> NDArray[np.int64]:
    """Return the numbers of the selected rows of one block.

    Row numbers are int64, 0-based and ascending.

    >>> rows(np.array([0b101, 1], np.uint8), layout([9]), block=0).tolist()
    [0, 2, 8]
    """
    return np.flatnonzero(np.unpackbits(bits[where.starts[block] : where.starts[block + 1]], bitorder="little"))


def _trim(bits: NDArray[np.uint8], where: BitLayout, blocks: NDArray[np.int64]) -> None:
    """Clear the padding in the last byte of some blocks of a selection.

    `blocks` has the positions of these blocks in the layout `where`.
    """
    filled = blocks[where.rows[blocks] > 0]
    bits[where.starts[filled + 1] - 1] &= tail_bits(where.rows[filled])
