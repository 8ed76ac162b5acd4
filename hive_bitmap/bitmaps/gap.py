"""Gap-coded bitmaps: the second iteration of HIVE-1803, and the default.

`_bitmaps binary`: the bytes of the plain bitmap, but a byte 0x00 or 0xFF stands for a run of one or more equal bytes.
`_gap_lengths array<int>`: the i-th such byte's run is the i-th length, in bytes. Runs at the end are stored too,
so that the decoded length is ceil(rows / 8).

Rows {5, 12, 64} of a block of 72 rows: bytes 20 10 00 01, gap lengths [6].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.bitmaps.keybytes import KeyBytes, join_full
from hive_bitmap.bitmaps.ragged import (
    binary_array,
    binary_values,
    list_array,
    list_values,
    offsets_of,
    require,
    segment_sums,
)
from hive_bitmap.bitmaps.writing import byte_lengths, fill, or_bytes, or_slices, tail_bits

NAME = "gap"
FIELDS = (pa.field("_bitmaps", pa.binary()), pa.field("_gap_lengths", pa.list_(pa.int32())))

_CHUNK = 1 << 17  # stored bytes placed at a time, so that what they need stays in the processor's cache


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """The bitmaps of the k keys: columns of k values, `_bitmaps` and `_gap_lengths`."""
    begin, position, value, run = join_full(b.first, b.position, b.value, 0xFF)
    zeros = np.diff(position + run, prepend=0)
    zeros -= run
    zeros[begin[:-1]] = position[begin[:-1]]
    last = begin[1:] - 1
    tail = b.nbytes - position[last] - run[last]
    # For each: the zeros before it (if any), its byte, and, behind a key's last byte, the zeros at the end (if any).
    size = (zeros > 0) + 1
    size[last] += tail > 0
    end = np.cumsum(size)
    at = end - 1
    at[last] -= tail > 0
    data = np.zeros(end[-1] if len(end) else 0, np.uint8)
    data[at] = value
    lengths = np.zeros(len(data), np.int32)
    lengths[at] = run
    before = np.flatnonzero(zeros)
    lengths[at[before] - 1] = zeros[before]
    behind = tail > 0
    lengths[end[last[behind]] - 1] = tail[behind]
    offsets = np.concatenate((np.zeros(1, np.int64), end[last]))
    marks = _marks(data)
    return binary_array(data, offsets), list_array(lengths[marks], np.searchsorted(marks, offsets))


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR the m stored bitmaps into `bits`: bitmap i belongs to a block of rows[i] rows that begins at bits[starts[i]].

    Raises CorruptBitmap, before `bits` is touched, for a bitmap that does not fit its block.
    """
    stored = _read(columns, rows)
    nbytes = byte_lengths(rows)
    if _mostly_single(stored, int(nbytes.sum())):
        _write_out(bits, stored, starts, nbytes)
    else:
        _place(bits, stored, starts, nbytes)


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bits each of the m stored bitmaps has set. Raises CorruptBitmap as `decode_into` does."""
    stored = _read(columns, rows)
    full = np.flatnonzero(stored.data[stored.marks] == 0xFF)
    repeated = segment_sums(stored.lengths[full] - 1, np.searchsorted(full, stored.mark_offsets))
    return segment_sums(np.bitwise_count(stored.data), stored.offsets) + 8 * repeated


@dataclass(frozen=True)
class _Stored:
    """m checked bitmaps as they are stored, end to end."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]  # m + 1, into data
    marks: NDArray[np.int64]  # where data has a byte that stands for a run
    lengths: NDArray[np.int32]  # the run of each mark, in bytes
    mark_offsets: NDArray[np.int64]  # m + 1, into marks and lengths


def _marks(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where `data` holds 0x00 or 0xFF."""
    return np.flatnonzero((data + np.uint8(1)) < 2)


def _read(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> _Stored:
    """The stored bitmaps, checked against the rows of their blocks."""
    data, offsets = binary_values(columns[0])
    lengths, mark_offsets = list_values(columns[1])
    marks = _marks(data)
    owned = np.diff(np.searchsorted(marks, offsets))
    require(owned == np.diff(mark_offsets), "it has not one gap length a byte 0x00 or 0xFF")
    if len(lengths) and lengths.min() < 1:
        require(segment_sums(lengths < 1, mark_offsets) == 0, "it has a gap length below 1")
    decoded = np.diff(offsets) - np.diff(mark_offsets) + segment_sums(lengths, mark_offsets)
    require(decoded == byte_lengths(rows), "its decoded bytes are not ceil(rows / 8)")
    filled = rows > 0
    require((data[offsets[1:][filled] - 1] & ~tail_bits(rows[filled])) == 0, "it has bits behind the last row")
    return _Stored(data, offsets, marks, lengths, mark_offsets)


def _mostly_single(stored: _Stored, whole: int) -> bool:
    """Whether most stored bytes stand for themselves, in bitmaps long enough to be copied: that is quickest."""
    mean = whole / max(1, len(stored.offsets) - 1)
    return mean >= 256 and 8 * len(stored.marks) <= len(stored.data) and whole <= 4 * len(stored.data)


def _write_out(bits: NDArray[np.uint8], stored: _Stored, starts: NDArray[np.int64], nbytes: NDArray[np.int64]) -> None:
    """OR the bitmaps after making them plain."""
    repeats = np.ones(len(stored.data), np.int64)
    repeats[stored.marks] = stored.lengths
    or_slices(bits, starts, np.repeat(stored.data, repeats), offsets_of(nbytes)[:-1], nbytes)


def _place(bits: NDArray[np.uint8], stored: _Stored, starts: NDArray[np.int64], nbytes: NDArray[np.int64]) -> None:
    """OR each stored byte, or its run, into its place; some bitmaps at a time."""
    held = np.flatnonzero(nbytes)
    starts, nbytes = starts[held], nbytes[held]
    offsets, mark_offsets = (np.append(o[held], o[-1]) for o in (stored.offsets, stored.mark_offsets))
    begin = 0
    while begin < len(held):
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + _CHUNK, "right")) - 1)
        data = stored.data[offsets[begin] : offsets[end]]
        some = slice(mark_offsets[begin], mark_offsets[end])
        marks, lengths = stored.marks[some] - offsets[begin], stored.lengths[some]
        # How far each stored byte moves on; a bitmap's first one moves from the end of the bitmap before it, too.
        step = np.ones(len(data), np.int64)
        step[marks] = lengths
        chunk = slice(begin, end)
        step[offsets[chunk] - offsets[begin]] += np.diff(starts[chunk] + nbytes[chunk], prepend=1) - nbytes[chunk]
        at = np.cumsum(step)  # where the last byte of each run lies
        _or_chunk(bits, at, data, disjoint=bool((np.diff(starts[chunk]) > 0).all()))
        full = np.flatnonzero((data[marks] == 0xFF) & (lengths > 1))
        fill(bits, at[marks[full]] + 1 - lengths[full], lengths[full].astype(np.int64))
        begin = end


def _or_chunk(bits: NDArray[np.uint8], at: NDArray[np.int64], data: NDArray[np.uint8], disjoint: bool) -> None:
    """bits[at] |= data; `disjoint` says that `at` does not repeat, as when no two bitmaps share a block."""
    if disjoint:
        bits[at] |= data
        return
    held = np.flatnonzero(data)
    or_bytes(bits, at[held], data[held])
