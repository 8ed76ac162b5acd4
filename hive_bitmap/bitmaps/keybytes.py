"""The bitmaps of all keys of one block at once: their non-zero bytes, and nothing else.

Every encoding starts from these. However many keys a block has, its bitmaps have at most one non-zero byte a row: this
form is never larger than the block, and whole-array operations make it, with no loop over keys or rows.

A block of 10 rows whose first 9 have key 0 and whose last has key 1. The bitmaps are ff 01 and 00 02: three bytes that
are not zero, two of key 0, and of key 1 the byte at position 1.

>>> present, b = key_bytes(np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]))
>>> present.tolist(), b.first.tolist(), b.position.tolist(), b.value.tobytes().hex(" ")
([0, 1], [0, 2, 3], [0, 1, 1], 'ff 01 02')
>>> b.cardinalities().tolist()
[9, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_bitmap.bitmaps.ragged import segment_sums

_FEW_KEYS = 32  # up to here one comparison of all rows for each key costs less than a sort of the rows


@dataclass(frozen=True)
class KeyBytes:
    """The non-zero bytes of the bitmaps of the k keys of one block of `rows` rows.

    Key i owns [first[i], first[i+1]) of `position` (byte of the bitmap, ascending inside a key) and `value` (1 to 255).
    Row r is bit r % 8, least significant first, of byte r // 8. Every key owns at least one byte.
    """

    rows: int
    first: NDArray[np.int64]  # k + 1
    position: NDArray[np.int64]  # n
    value: NDArray[np.uint8]  # n

    @property
    def keys(self) -> int:
        """How many keys the block has."""
        return len(self.first) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of one whole bitmap of the block."""
        return (self.rows + 7) // 8

    def cardinalities(self) -> NDArray[np.int64]:
        """The rows that each key has."""
        return segment_sums(np.bitwise_count(self.value), self.first)


def key_bytes(codes: NDArray[Any]) -> tuple[NDArray[np.int64], KeyBytes]:
    """The codes that occur (int64, k, ascending), and the bytes of their bitmaps: those of present[i] are key i.

    `codes` has an integer for each row of the block, from 0 to below 2**32: an index into the keys of the block.

    >>> present, b = key_bytes(np.array([3, 3, 0, 3, 3, 3, 3, 3, 3]))
    >>> present.tolist(), b.first.tolist(), b.position.tolist(), b.value.tolist()
    ([0, 3], [0, 1, 3], [0, 0, 1], [4, 251, 1])
    """
    keys = int(codes.max()) + 1 if len(codes) else 0
    return _by_matrix(codes, keys) if keys <= _FEW_KEYS else _by_sort(codes, keys)


def join_full(
    first: NDArray[np.int64], position: NDArray[np.int64], value: NDArray[Any], full: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """The bytes (or words) of each key, with each run of neighbours of the value `full` made one.

    Returns first (k + 1), and position, value and run length, in bytes (or words), of each of those that are left.

    >>> first, position, value, run = join_full(np.array([0, 4]), np.arange(4), np.array([255, 255, 1, 255]), 255)
    >>> first.tolist(), position.tolist(), value.tolist(), run.tolist()
    ([0, 3], [0, 2, 3], [255, 1, 255], [2, 1, 1])
    """
    filled = value == full
    joins = np.zeros(len(value), bool)
    if filled.any():
        joins[1:] = filled[1:] & filled[:-1] & (position[1:] == position[:-1] + 1)
        joins[first[:-1]] = False
    if not joins.any():
        return first, position, value, np.broadcast_to(np.int64(1), len(value))
    kept = np.flatnonzero(~joins)
    return np.searchsorted(kept, first), position[kept], value[kept], np.diff(kept, append=len(joins))


def _by_matrix(codes: NDArray[Any], keys: int) -> tuple[NDArray[np.int64], KeyBytes]:
    """Out of the matrix of all bytes of all keys, one look at all rows for each key."""
    nbytes = (len(codes) + 7) // 8
    matrix = np.empty((keys, nbytes), np.uint8)
    for key in range(keys):
        matrix[key] = np.packbits(codes == key, bitorder="little")
    values = matrix.ravel()
    at = np.flatnonzero(values != 0)
    begin = np.arange(keys) * nbytes
    first = np.searchsorted(at, np.append(begin, len(values)))
    length = np.diff(first)
    present = np.flatnonzero(length)
    b = KeyBytes(len(codes), np.append(first[present], len(at)), at - np.repeat(begin, length), values[at])
    return present, b


def _by_sort(codes: NDArray[Any], keys: int) -> tuple[NDArray[np.int64], KeyBytes]:
    """Out of (code, row), packed in one integer and sorted."""
    rows = len(codes)
    shift = max(3, (rows - 1).bit_length())
    word: type[Any] = np.uint32 if shift + (keys - 1).bit_length() <= 32 else np.uint64
    packed: NDArray[Any] = codes.astype(word)
    packed <<= word(shift)
    packed |= np.arange(rows, dtype=word)
    packed.sort()
    byte = packed >> word(3)
    new = _changes(byte)
    start = np.flatnonzero(new)
    packed &= word(7)
    bit = np.left_shift(np.uint8(1), packed.astype(np.uint8))
    value = bit[start]
    more = np.flatnonzero(~new)  # rows in the byte of the row before; the bits of a byte differ: their OR is their sum
    np.add.at(value, more - np.arange(1, len(more) + 1), bit[more])
    byte = byte[start]
    code = byte >> word(shift - 3)
    first = np.flatnonzero(_changes(code))
    position = (byte & word((1 << (shift - 3)) - 1)).astype(np.int64)
    return code[first].astype(np.int64), KeyBytes(rows, np.append(first, len(code)), position, value)


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a value differs from the one before it; the first one does."""
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new
