"""Compute the non-zero bytes of the bitmaps of one block.

Every encoding starts from this form. The bitmaps of a block have at most one non-zero byte for each row, for any number
of keys. So the form has at most as many entries as the block has rows. Whole-array operations compute the form, without
a loop over rows.

Example: a block of 10 rows, of which the first 9 have key 0 and the last has key 1. The bitmaps are ff 01 and 00 02.
Three bytes are not zero: two of key 0, and the byte at position 1 of key 1.

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

from hive_bitmap.core.bitmaps.ragged import changes, segment_sums

_FEW_KEYS = 32  # most keys for which comparing all rows with each key is faster than sorting the rows


@dataclass(frozen=True)
class KeyBytes:
    """The non-zero bytes of the bitmaps of a block's k keys.

    The block has `rows` rows. Key i owns the entries first[i] to first[i+1] (exclusive) of `position` and `value`, and
    has at least one entry. `position` is the position of the byte in the bitmap, ascending for each key. `value` is the
    byte itself, 1 to 255. Row r is bit r % 8, least significant first, of byte r // 8.
    """

    rows: int
    first: NDArray[np.int64]  # k + 1
    position: NDArray[np.int64]  # n
    value: NDArray[np.uint8]  # n

    @property
    def keys(self) -> int:
        """The number of keys of the block."""
        return len(self.first) - 1

    @property
    def nbytes(self) -> int:
        """The size of one decoded bitmap of the block, in bytes."""
        return (self.rows + 7) // 8

    def part(self, first: int, end: int) -> KeyBytes:
        """Return the bitmaps of the keys `first` to `end` (exclusive).

        `end` may be beyond the last key.
        """
        owned = self.first[first : end + 1]
        entries = slice(int(owned[0]), int(owned[-1]))
        return KeyBytes(self.rows, owned - owned[0], self.position[entries], self.value[entries])

    def cardinalities(self) -> NDArray[np.int64]:
        """Return the number of rows of each key (int64, k)."""
        return segment_sums(np.bitwise_count(self.value), self.first)


def key_bytes(codes: NDArray[Any]) -> tuple[NDArray[np.int64], KeyBytes]:
    """Return the codes that occur, and their bitmaps.

    `codes` has an integer below 2**32 for each row of the block: the number of the row's key. The first result has the
    k codes that occur (int64, ascending). Key i of the bitmaps has the i-th of these codes.

    >>> present, b = key_bytes(np.array([3, 3, 0, 3, 3, 3, 3, 3, 3]))
    >>> present.tolist(), b.first.tolist(), b.position.tolist(), b.value.tolist()
    ([0, 3], [0, 1, 3], [0, 0, 1], [4, 251, 1])
    """
    keys = int(codes.max()) + 1 if len(codes) else 0
    return _by_matrix(codes, keys) if keys <= _FEW_KEYS else _by_sort(codes, keys)


def join_full(
    first: NDArray[np.int64], position: NDArray[np.int64], value: NDArray[Any], full: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Join adjacent bytes (or words) of the value `full`.

    `first`, `position` and `value` describe the bytes of k bitmaps, as in `KeyBytes`. Inside a bitmap, each run of the
    value `full` becomes one entry. Returns four arrays: the offset of each bitmap's first entry (k + 1, like `first`),
    and for each entry its position, its value, and the length of its run in bytes (or words), which is 1 without a run.

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
    entries = np.flatnonzero(~joins)
    return np.searchsorted(entries, first), position[entries], value[entries], np.diff(entries, append=len(joins))


def _by_matrix(codes: NDArray[Any], keys: int) -> tuple[NDArray[np.int64], KeyBytes]:
    """Return the result of `key_bytes`, computed from a matrix of all bytes.

    The matrix has all bytes of the bitmaps of all keys. All codes are less than `keys`. Each code is compared with each
    number below `keys`.
    """
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
    """Return the result of `key_bytes`, computed by sorting pairs (code, row).

    All codes are less than `keys`. Each pair is packed into one integer.
    """
    rows = len(codes)
    shift = max(3, (rows - 1).bit_length())
    word: type[Any] = np.uint32 if shift + (keys - 1).bit_length() <= 32 else np.uint64
    packed: NDArray[Any] = codes.astype(word)
    packed <<= word(shift)
    packed |= np.arange(rows, dtype=word)
    packed.sort()
    byte = packed >> word(3)
    new = changes(byte)
    start = np.flatnonzero(new)
    packed &= word(7)
    bit = np.left_shift(np.uint8(1), packed.astype(np.uint8))
    value = bit[start]
    # Rows that share a byte with the row before them. The bits of a byte are distinct, so their sum is their OR.
    more = np.flatnonzero(~new)
    np.add.at(value, more - np.arange(1, len(more) + 1), bit[more])
    byte = byte[start]
    code = byte >> word(shift - 3)
    first = np.flatnonzero(changes(code))
    position = (byte & word((1 << (shift - 3)) - 1)).astype(np.int64)
    return code[first].astype(np.int64), KeyBytes(rows, np.append(first, len(code)), position, value)
