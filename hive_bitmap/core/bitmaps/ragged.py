"""Compute with ragged arrays, and convert them from and to Arrow.

A ragged array holds many short sequences, laid end to end in one array. Sequence i is values[offsets[i]:offsets[i+1]].
offsets[0] is 0, the last offset is the length of the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.errors import CorruptBitmap

_MOST_BYTES = (1 << 31) - 1  # most bytes of a binary array, whose offsets have 32 bits


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets of sequences of these lengths.

    >>> offsets_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def segment_sums(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of each sequence of `values` (int64); 0 for an empty sequence."""
    # Summing in uint32 takes half the time of int64, and the sum of fewer than 2**24 bytes fits.
    kind = np.uint32 if values.dtype == np.uint8 and len(values) < 1 << 24 else np.int64
    sums = np.zeros(len(offsets) - 1, np.int64)
    filled = offsets[:-1] < offsets[1:]  # for an empty sequence reduceat returns the value at its start
    if filled.any():
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled], dtype=kind)
    return sums


def pieces(offsets: NDArray[np.int64], size: int) -> Iterator[slice]:
    """Cut the sequences into slices of limited size.

    A slice has consecutive sequences with at most `size` values together. A sequence with more than `size` values is a
    slice by itself.

    >>> list(pieces(np.array([0, 2, 3, 9, 10]), 4))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    begin, count = 0, len(offsets) - 1
    while begin < count:
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + size, "right")) - 1)
        yield slice(begin, end)
        begin = end


def changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value differs from the preceding value; true for the first value.

    >>> changes(np.array([7, 7, 8, 7])).tolist()
    [True, False, True, True]
    """
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


def spans(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ranges of numbers, end to end.

    Range i is starts[i], starts[i] + 1, .. (lengths[i] numbers).

    >>> spans(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist()
    [5, 6, 9, 10, 11]
    """
    indexes = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    indexes += np.arange(len(indexes))
    return indexes


def binary_array(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> pa.Array:
    """Return a ragged array of bytes as an Arrow array of binary values.

    All sequences together must have less than 2 GiB (32-bit offsets).
    """
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def list_array(values: NDArray[Any], offsets: NDArray[np.int64]) -> pa.Array:
    """Return a ragged array of numbers as an Arrow array of lists."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def binary_values(column: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the values of a binary array, and their offsets.

    The values are laid end to end, and the offsets are int64. The array may be a slice. Raises CorruptBitmap for a
    null.

    >>> data, offsets = binary_values(pa.array([b"ab", b"", b"c"]))
    >>> data.tobytes(), offsets.tolist()
    (b'abc', [0, 2, 2, 3])
    """
    _require_values(column)
    if not len(column):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, ends, content = column.buffers()
    offsets = np.frombuffer(ends, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    data = np.frombuffer(content if content is not None else b"", np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def list_values(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the elements of an array of integer lists, and the offsets.

    The elements of all lists are laid end to end. The offsets (int64) say where each list begins. The array may be a
    slice. Raises CorruptBitmap for a null list or a null in a list.
    """
    _require_values(column)
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    _require_values(values)
    return values.to_numpy(), offsets - offsets[0]


def take(column: pa.Array, order: pa.Array) -> pa.Array:
    """Compute `column.take(order)` faster than Arrow.

    `order` holds 0-based indexes. Arrow copies lists number by number, so here a list of numbers is taken as one binary
    value.
    """
    if not isinstance(column, pa.ListArray) or column.null_count or column.values.null_count:
        return column.take(order)
    values, offsets = list_values(column)
    ends = offsets * values.itemsize
    if ends[-1] > _MOST_BYTES:
        return column.take(order)
    data, ends = binary_values(binary_array(values.view(np.uint8), ends).take(order))
    numbers = pa.array(data.view(values.dtype))
    return pa.ListArray.from_arrays(pa.array((ends // values.itemsize).astype(np.int32)), numbers, type=column.type)


def require(good: NDArray[np.bool_], what: str) -> None:
    """Raise CorruptBitmap unless `good` is true for every bitmap.

    The error names the first bitmap that is not good; `what` says what is wrong with it.
    """
    if not good.all():
        raise CorruptBitmap(f"bitmap {int(np.argmin(good))} of {len(good)}: {what}")


def _require_values(column: pa.Array) -> None:
    """Raise CorruptBitmap if the column has a null."""
    if column.null_count:
        raise CorruptBitmap(f"{column.null_count} of {len(column)} stored values are NULL: expected none")
