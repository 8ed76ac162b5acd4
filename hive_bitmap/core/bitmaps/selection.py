"""Selections: one bit for each row of several blocks.

A selection is a uint8 array, least significant bit first. Each block begins at a byte boundary, and its last byte is
padded with zeros. AND and OR of two selections of the same layout are numpy's `&` and `|`. Because the padding must
stay 0, do not complement a selection with `~`; subtract it from another one with `and_not`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hive_bitmap.core.bitmaps.ragged import offsets_of, segment_sums
from hive_bitmap.core.bitmaps.writing import byte_lengths, fill, tail_bits


@dataclass(frozen=True)
class BitLayout:
    """The positions of the b blocks of a selection.

    The selection is a uint8 array of starts[b] bytes.
    """

    rows: NDArray[np.int64]  # b: number of rows of each block
    starts: NDArray[np.int64]  # b + 1: first byte of each block, and the end of the last one


def layout(rows: ArrayLike) -> BitLayout:
    """Return the layout of blocks with these numbers of rows.

    The blocks keep this order.

    >>> layout([9, 0, 8]).starts.tolist()
    [0, 2, 2, 3]
    """
    counted = np.asarray(rows, np.int64)
    return BitLayout(counted, offsets_of(byte_lengths(counted)))


def nothing(where: BitLayout) -> NDArray[np.uint8]:
    """Return a selection of no row."""
    return np.zeros(where.starts[-1], np.uint8)


def everything(where: BitLayout) -> NDArray[np.uint8]:
    """Return a selection of every row of every block."""
    bits = np.full(where.starts[-1], 0xFF, np.uint8)
    _trim(bits, where, np.arange(len(where.rows)))
    return bits


def everything_in(where: BitLayout, blocks: ArrayLike) -> NDArray[np.uint8]:
    """Return a selection of every row of the chosen blocks.

    `blocks` are their numbers. No other row is selected.
    """
    chosen = np.asarray(blocks, np.int64)
    bits = nothing(where)
    fill(bits, where.starts[chosen], where.starts[chosen + 1] - where.starts[chosen])
    _trim(bits, where, chosen)
    return bits


def and_not(bits: NDArray[np.uint8], removed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the rows of `bits` that are not in `removed`.

    Both, and the result, are selections of the same layout.
    """
    return bits & ~removed


def counts(bits: NDArray[np.uint8], where: BitLayout) -> NDArray[np.int64]:
    """Count the selected rows of each block (int64, b).

    >>> where = layout([9, 0, 8])
    >>> counts(np.array([0b101, 1, 0xFF], np.uint8), where).tolist()
    [3, 0, 8]
    """
    return segment_sums(np.bitwise_count(bits), where.starts)


def any_in(bits: NDArray[np.uint8], where: BitLayout) -> NDArray[np.bool_]:
    """Return whether each block has a selected row (bool, b)."""
    has_rows = np.zeros(len(where.rows), bool)
    filled = np.flatnonzero(where.rows)
    if len(filled):
        has_rows[filled] = np.bitwise_or.reduceat(bits, where.starts[filled]) != 0
    return has_rows


def rows(bits: NDArray[np.uint8], where: BitLayout, block: int) -> NDArray[np.int64]:
    """Return the numbers of the selected rows of one block.

    They are int64, 0-based and ascending.

    >>> rows(np.array([0b101, 1], np.uint8), layout([9]), block=0).tolist()
    [0, 2, 8]
    """
    return np.flatnonzero(np.unpackbits(bits[where.starts[block] : where.starts[block + 1]], bitorder="little"))


def _trim(bits: NDArray[np.uint8], where: BitLayout, blocks: NDArray[np.int64]) -> None:
    """Clear the padding in the last byte of each of these blocks."""
    filled = blocks[where.rows[blocks] > 0]
    bits[where.starts[filled + 1] - 1] &= tail_bits(where.rows[filled])
