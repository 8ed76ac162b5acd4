"""Gap-coded bitmaps: the second iteration of HIVE-1803, and the default.

`_bitmaps binary`: the bytes of the plain bitmap, but a byte 0x00 or 0xFF stands for a run of one or more equal bytes.
`_gap_lengths array<int>`: the i-th such byte's run is the i-th length, in bytes. Runs at the end are stored too,
so that the decoded length is ceil(rows / 8).

Rows {5, 12, 64} of a block of 72 rows: bytes 20 10 00 01, gap lengths [6].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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

_SHORT = 256  # mean bytes that lie apart: below, one by one they take longer than a look for those that meet
_CHUNK = 1 << 17  # stored bytes unpacked at a time, so that what they need stays in the processor's cache


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """The bitmaps of the k keys: columns of k values, `_bitmaps` and `_gap_lengths`."""
    begin, position, value, run = join_full(b.first, b.position, b.value, 0xFF)
    last = begin[1:] - 1
    zeros = position.copy()  # before each byte, since the one before it or the bitmap's start
    zeros[1:] -= position[:-1]
    zeros[1:] -= run[:-1]
    zeros[begin[:-1]] = position[begin[:-1]]
    tail = b.nbytes - position[last] - run[last]  # zeros behind the last byte
    ends = np.cumsum(tail > 0)
    gapped = zeros != 0
    at = np.cumsum(gapped)
    at += np.arange(len(at))
    at += np.repeat(ends - (tail > 0), np.diff(begin))
    offsets = np.append(0, at[last] + 1 + (tail > 0))
    data = np.zeros(offsets[-1], np.uint8)
    data[at] = value
    # The marks: a zero run before a byte, a run of 0xFF, a zero run at an end, in their order. The first are the most.
    gaps, full, ended = np.flatnonzero(gapped), np.flatnonzero(value == 0xFF), np.flatnonzero(tail > 0)
    item = np.concatenate((2 * full, 2 * last[ended] + 1))
    order = np.argsort(item, kind="stable")
    item, length = item[order], np.concatenate((run[full], tail[ended]))[order]
    lengths = _merged(zeros[gaps], length, np.searchsorted(gaps, item >> 1, "right"))
    marks = np.searchsorted(gaps, begin) + np.searchsorted(item, 2 * begin)
    return binary_array(data, offsets), list_array(lengths, marks)


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR the m stored bitmaps into `bits`: bitmap i belongs to a block of rows[i] rows that begins at bits[starts[i]].

    Raises CorruptBitmap, before `bits` is touched, for a bitmap that does not fit its block.
    """
    stored = _Stored(*binary_values(columns[0]), *list_values(columns[1]))
    nbytes = byte_lengths(rows)
    _require_tails(stored, rows)
    if _mostly_single(stored, int(nbytes.sum())):
        or_slices(bits, starts, _plain(stored, nbytes), offsets_of(nbytes)[:-1], nbytes)
        return
    for placed in [_unpack(part, starts[some], nbytes[some]) for some, part in _parts(stored)]:
        _or_placed(bits, placed)


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bits each of the m stored bitmaps has set. Raises CorruptBitmap as `decode_into` does."""
    stored = _Stored(*binary_values(columns[0]), *list_values(columns[1]))
    _require_tails(stored, rows)
    marks = _checked_marks(stored, byte_lengths(rows))
    full = np.flatnonzero(stored.data[marks] == 0xFF)
    repeated = segment_sums(stored.lengths[full] - 1, np.searchsorted(full, stored.mark_offsets))
    return segment_sums(np.bitwise_count(stored.data), stored.offsets) + 8 * repeated


def shared(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How many rows of each of the m stored bitmaps `bits` holds too; quick where most of their bytes are runs.

    Raises CorruptBitmap as `decode_into` does.
    """
    stored = _Stored(*binary_values(columns[0]), *list_values(columns[1]))
    _require_tails(stored, rows)
    nbytes, before = byte_lengths(rows), np.zeros(0, np.int64)
    counts = np.zeros(len(rows), np.int64)
    for some, part in _parts(stored):
        placed = _unpack(part, starts[some], nbytes[some])
        counts[some] = segment_sums(np.bitwise_count(placed.value & bits[placed.at]), placed.first)
        if len(placed.full):
            before = before if len(before) else offsets_of(np.bitwise_count(bits).astype(np.int64))
            begin = placed.at[placed.full]
            held = before[begin + placed.run] - before[begin + 1]
            counts[some] += segment_sums(held, np.searchsorted(placed.full, placed.first))
    return counts


@dataclass(frozen=True)
class _Stored:
    """m bitmaps as they are stored, end to end. A mark is a byte that stands for a run: 0x00 or 0xFF."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]  # m + 1, into data
    lengths: NDArray[np.int32]  # the run of each mark, in bytes
    mark_offsets: NDArray[np.int64]  # m + 1, into lengths


@dataclass(frozen=True)
class _Placed:
    """The non-zero bytes of some bitmaps, and where in a selection they lie."""

    at: NDArray[np.int64]
    value: NDArray[np.uint8]
    first: NDArray[np.int64]  # m + 1: bitmap i has the bytes [first[i], first[i+1])
    apart: NDArray[np.int64]  # no two of the bytes [apart[i], apart[i+1]) lie in one place
    full: NDArray[np.int64]  # the bytes that begin runs of 0xFF longer than one
    run: NDArray[np.int64]  # their lengths


def _merged(many: NDArray[np.int64], few: NDArray[np.int64], before: NDArray[np.int64]) -> NDArray[np.int32]:
    """`many` with few[i] put in behind the first before[i] of them (ascending)."""
    merged = np.empty(len(many) + len(few), np.int32)
    merged[before + np.arange(len(few))] = few
    place = np.arange(len(many))
    place += np.repeat(np.arange(len(few) + 1), np.diff(before, prepend=0, append=len(many)))
    merged[place] = many
    return merged


def _marks(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where `data` holds 0x00 or 0xFF."""
    return np.flatnonzero((data + np.uint8(1)) < 2)


def _require_tails(stored: _Stored, rows: NDArray[np.int64]) -> None:
    """No bitmap has a bit behind the last row, as far as its last byte tells; what has no rows stores nothing."""
    filled = (rows > 0) & (np.diff(stored.offsets) > 0)
    last = stored.data[stored.offsets[1:][filled] - 1]
    require((last & ~tail_bits(rows[filled])) == 0, "it has bits behind the last row")


def _require_lengths(
    stored: _Stored, marks: NDArray[np.int64], longer: NDArray[np.int64], nbytes: NDArray[np.int64]
) -> None:
    """Bitmap i has marks[i] marks, whose runs make it longer[i] bytes longer: is that what its gap lengths say?"""
    require(marks == np.diff(stored.mark_offsets), "it has not one gap length a byte 0x00 or 0xFF")
    if len(stored.lengths) and stored.lengths.min() < 1:
        require(segment_sums(stored.lengths < 1, stored.mark_offsets) == 0, "it has a gap length below 1")
    require(np.diff(stored.offsets) + longer == nbytes, "its decoded bytes are not ceil(rows / 8)")


def _checked_marks(stored: _Stored, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    marks = _marks(stored.data)
    owned = np.diff(np.searchsorted(marks, stored.offsets))
    longer = segment_sums(stored.lengths, stored.mark_offsets) - np.diff(stored.mark_offsets)
    _require_lengths(stored, owned, longer, nbytes)
    return marks


def _mostly_single(stored: _Stored, whole: int) -> bool:
    """Whether most stored bytes stand for themselves, in bitmaps long enough to be copied: that is quickest."""
    mean = whole / max(1, len(stored.offsets) - 1)
    return mean >= 256 and 8 * len(stored.lengths) <= len(stored.data) and whole <= 4 * len(stored.data)


def _plain(stored: _Stored, nbytes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bytes of the bitmaps, end to end."""
    repeats = np.ones(len(stored.data), np.int64)
    repeats[_checked_marks(stored, nbytes)] = stored.lengths
    return np.repeat(stored.data, repeats)


def _parts(stored: _Stored) -> Iterator[tuple[slice, _Stored]]:
    """The bitmaps, some at a time."""
    offsets, marks = stored.offsets, stored.mark_offsets
    begin, count = 0, len(offsets) - 1
    while begin < count:
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + _CHUNK, "right")) - 1)
        yield (
            slice(begin, end),
            _Stored(
                stored.data[offsets[begin] : offsets[end]],
                offsets[begin : end + 1] - offsets[begin],
                stored.lengths[marks[begin] : marks[end]],
                marks[begin : end + 1] - marks[begin],
            ),
        )
        begin = end


def _unpack(stored: _Stored, starts: NDArray[np.int64], nbytes: NDArray[np.int64]) -> _Placed:
    """Where the non-zero bytes of bitmaps lie that begin at `starts`.

    Each stored byte lies as many bytes behind its bitmap's start as it is stored behind its begin, and as the marks
    before it are longer than one byte.
    """
    at = np.flatnonzero(stored.data != 0)
    value = stored.data[at]
    first = np.searchsorted(at, stored.offsets)
    full = np.flatnonzero(value == 0xFF)
    marks_before = at - np.arange(len(at))  # the bytes 0x00; those 0xFF are added
    if len(full):
        marks_before += np.repeat(np.arange(len(full) + 1), np.diff(full + 1, prepend=0, append=len(at)))
    longer = np.zeros(len(stored.lengths) + 1, np.int64)
    longer[1:] = stored.lengths
    longer[1:] -= 1
    np.cumsum(longer, out=longer)
    marks = np.diff(stored.offsets) - np.diff(first) + np.diff(np.searchsorted(full, first))
    _require_lengths(stored, marks, np.diff(longer[stored.mark_offsets]), nbytes)
    at += longer[marks_before]
    at += np.repeat(starts - stored.offsets[:-1] - longer[stored.mark_offsets[:-1]], np.diff(first))
    meets = np.flatnonzero(starts[1:] <= starts[:-1]) + 1
    run = stored.lengths[marks_before[full]].astype(np.int64)
    long = run > 1
    return _Placed(at, value, first, first[np.concatenate(([0], meets, [len(starts)]))], full[long], run[long])


def _or_placed(bits: NDArray[np.uint8], placed: _Placed) -> None:
    if len(placed.at) < _SHORT * len(placed.apart):
        or_bytes(bits, placed.at, placed.value)
    else:
        for begin, end in pairwise(placed.apart.tolist()):
            bits[placed.at[begin:end]] |= placed.value[begin:end]
    fill(bits, placed.at[placed.full], placed.run)
