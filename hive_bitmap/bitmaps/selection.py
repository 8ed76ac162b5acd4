"""Selections in memory: one bit a row, least significant first; blocks lie side by side, each aligned to a byte.

AND and OR of two selections of one layout are numpy's `&` and `|`. The bits behind the last row of a block are always
0, so a selection is never complemented by itself: take it out of another one (`and_not`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hive_bitmap.bitmaps.ragged import offsets_of, segment_sums
from hive_bitmap.bitmaps.writing import byte_lengths, fill, tail_bits


@dataclass(frozen=True)
class BitLayout:
    """Where the b blocks of a selection lie in it: a selection is a uint8 array of starts[b] bytes."""

    rows: NDArray[np.int64]  # b: how many rows each block has
    starts: NDArray[np.int64]  # b + 1: the byte at which each block begins, and the end of the last one


def layout(rows: ArrayLike) -> BitLayout:
    """The layout of blocks of `rows` rows, in the order given.

    >>> layout([9, 0, 8]).starts.tolist()
    [0, 2, 2, 3]
    """
    counted = np.asarray(rows, np.int64)
    return BitLayout(counted, offsets_of(byte_lengths(counted)))


def nothing(where: BitLayout) -> NDArray[np.uint8]:
    """No row of any block: a selection (uint8, the bytes of all blocks)."""
    return np.zeros(where.starts[-1], np.uint8)


def everything(where: BitLayout) -> NDArray[np.uint8]:
    """Every row of every block: a selection (uint8, the bytes of all blocks)."""
    bits = np.full(where.starts[-1], 0xFF, np.uint8)
    _trim(bits, where, np.arange(len(where.rows)))
    return bits


def everything_in(where: BitLayout, blocks: ArrayLike) -> NDArray[np.uint8]:
    """Every row of the blocks with these numbers, and no other row: a selection (uint8, the bytes of all blocks)."""
    chosen = np.asarray(blocks, np.int64)
    bits = nothing(where)
    fill(bits, where.starts[chosen], where.starts[chosen + 1] - where.starts[chosen])
    _trim(bits, where, chosen)
    return bits


def and_not(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The rows of `left` that `right` does not hold; all three are selections of the same layout."""
    return left & ~right


def counts(bits: NDArray[np.uint8], where: BitLayout) -> NDArray[np.int64]:
    """How many rows of each block are selected (int64, b).

    >>> where = layout([9, 0, 8])
    >>> counts(np.array([0b101, 1, 0xFF], np.uint8), where).tolist()
    [3, 0, 8]
    """
    return segment_sums(np.bitwise_count(bits), where.starts)


def any_in(bits: NDArray[np.uint8], where: BitLayout) -> NDArray[np.bool_]:
    """Which blocks have a selected row (bool, b)."""
    found = np.zeros(len(where.rows), bool)
    filled = np.flatnonzero(where.rows)
    if len(filled):
        found[filled] = np.bitwise_or.reduceat(bits, where.starts[filled]) != 0
    return found


def rows(bits: NDArray[np.uint8], where: BitLayout, block: int) -> NDArray[np.int64]:
    """The numbers of the selected rows of one block (int64), 0-based and ascending.

    >>> rows(np.array([0b101, 1], np.uint8), layout([9]), block=0).tolist()
    [0, 2, 8]
    """
    return np.flatnonzero(np.unpackbits(bits[where.starts[block] : where.starts[block + 1]], bitorder="little"))


def _trim(bits: NDArray[np.uint8], where: BitLayout, blocks: NDArray[np.int64]) -> None:
    """Clear what lies behind the last row in the last byte of these blocks."""
    filled = blocks[where.rows[blocks] > 0]
    bits[where.starts[filled + 1] - 1] &= tail_bits(where.rows[filled])
