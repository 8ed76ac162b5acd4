"""Encode and decode gap-coded bitmaps, the default encoding.

Gap-coded bitmaps are the second iteration in the design of HIVE-1803, which Hive never implemented. The design:
https://cwiki.apache.org/confluence/display/Hive/IndexDev+Bitmap.

`_bitmaps binary`: the bytes of the plain bitmap, except that each run of equal bytes 0x00 or 0xFF is a single byte, the
mark of the run. `_gap_lengths array<int>`: the length of each run in bytes, in the order of the marks. A run at the end
is stored too, so the decoded length is always ceil(rows / 8). Example: rows 5, 12 and 64 of a block of 72 rows, whose
plain bitmap is 20 10 00 00 00 00 00 00 01.

>>> b = KeyBytes(rows=72, first=np.array([0, 3]), position=np.array([0, 1, 8]), value=np.uint8([0x20, 0x10, 0x01]))
>>> bitmaps, gap_lengths = encode(b)
>>> bitmaps[0].as_py().hex(" "), gap_lengths[0].as_py()
('20 10 00 01', [6])
>>> bits = np.zeros(9, np.uint8)
>>> decode_into(bits, [bitmaps, gap_lengths], starts=np.array([0]), rows=np.array([72]))
>>> bits.tobytes().hex(" ")
'20 10 00 00 00 00 00 00 01'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.cached_bitmaps import SPARSE_BYTES, CachedBitmaps, PlainBitmaps, SparseBitmaps
from hive_bitmap.core.bitmaps.keybytes import KeyBytes, join_full
from hive_bitmap.core.bitmaps.ragged import (
    binary_array,
    binary_values,
    list_array,
    list_values,
    offsets_of,
    pieces,
    require,
    segment_sums,
)
from hive_bitmap.core.bitmaps.selection import byte_lengths, tail_bits

NAME = "gap"
FIELDS = (pa.field("_bitmaps", pa.binary()), pa.field("_gap_lengths", pa.list_(pa.int32())))

_CHUNK = 1 << 17  # stored bytes decoded at a time, few enough for the temporary arrays to fit the processor's cache


def encode(b: KeyBytes) -> tuple[pa.Array, ...]:
    """Encode the bitmaps of the k keys of a block.

    `b` has the non-zero bytes of the bitmaps. Returns the columns `_bitmaps` and `_gap_lengths`, of k values each.
    """
    begin, position, value, run = join_full(b.first, b.position, b.value, 0xFF)
    last = begin[1:] - 1
    zeros = position.astype(np.int32)  # bytes between an entry and the one before it, or the start of its bitmap
    zeros[1:] -= zeros[:-1] + run[:-1].astype(np.int32)
    zeros[begin[:-1]] = position[begin[:-1]]
    gapped = zeros != 0
    # Put a 0x00 mark before each byte, then remove the marks of bytes that follow no zeros.
    pairs, is_kept = np.zeros((len(value), 2), np.uint8), np.ones((len(value), 2), bool)
    pairs[:, 1], is_kept[:, 0] = value, gapped
    data = pairs.ravel().compress(is_kept.ravel())
    gaps = np.flatnonzero(gapped)
    marks = np.searchsorted(gaps, begin)
    tail = b.nbytes - position[last] - run[last]  # number of zero bytes after the last entry of each bitmap
    ended = np.flatnonzero(tail)
    data = _merged(data, np.zeros(len(ended), np.uint8), (begin + marks)[1:][ended])
    offsets = begin + marks + np.searchsorted(ended, np.arange(len(begin)))
    # The lengths of all runs in their order: of zeros before a byte, of 0xFF, and of zeros at the end of a bitmap. Most
    # runs are of the first kind, so the others are merged into these.
    full = np.flatnonzero(value == 0xFF)
    item = np.concatenate((2 * full, 2 * last[ended] + 1))
    order = np.argsort(item, kind="stable")
    item, length = item[order], np.concatenate((run[full], tail[ended]))[order]
    lengths = _merged(zeros[gaps], length.astype(np.int32), np.searchsorted(gaps, item >> 1, "right"))
    return binary_array(data, offsets), list_array(lengths, marks + np.searchsorted(item, 2 * begin))


def decode_into(
    bits: NDArray[np.uint8], columns: Sequence[pa.Array], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> None:
    """OR m stored bitmaps into `bits`.

    `columns` has the columns `_bitmaps` and `_gap_lengths`, of m values each. Bitmap i belongs to a block of rows[i]
    rows that begins at bits[starts[i]]. Raises CorruptBitmap, before `bits` is changed, for a bitmap that does not fit
    its block.
    """
    stored = _stored(columns)
    parts = [(piece, _cached(stored.part(piece))) for piece in pieces(stored.offsets, _CHUNK)]
    _require_fit(stored, rows)
    for piece, bitmaps in parts:
        bitmaps.or_into(bits, np.arange(piece.stop - piece.start), starts[piece], rows[piece])


def to_cached(columns: Sequence[pa.Array]) -> CachedBitmaps:
    """Return the bitmaps in the form that is cached.

    Raises CorruptBitmap if a stored value is NULL, if a gap length is below 1, or if a bitmap has more or fewer gap
    lengths than marks.
    """
    return _cached(_stored(columns))


def cardinalities(columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the set bits of each of m stored bitmaps.

    `columns` has the columns `_bitmaps` and `_gap_lengths`, and `rows` the number of rows of each bitmap's block.
    Raises CorruptBitmap as `decode_into` does.
    """
    stored = _stored(columns)
    marks = _checked_marks(stored)
    _require_fit(stored, rows)
    full = np.flatnonzero(stored.data[marks] == 0xFF)
    repeated = segment_sums(stored.lengths[full] - 1, np.searchsorted(full, stored.mark_offsets))
    return segment_sums(np.bitwise_count(stored.data), stored.offsets) + 8 * repeated


@dataclass(frozen=True)
class _StoredGaps:
    """The stored bytes and gap lengths of m bitmaps, end to end.

    Bitmap i has the stored bytes data[offsets[i]:offsets[i+1]]. A mark is a byte that stands for a run: 0x00 or 0xFF.
    The lengths of the runs of bitmap i, in bytes, are lengths[mark_offsets[i]:mark_offsets[i+1]].
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]  # m + 1, into data
    lengths: NDArray[np.int32]  # length of the run of each mark, in bytes
    mark_offsets: NDArray[np.int64]  # m + 1, into lengths

    def decoded(self) -> NDArray[np.int64]:
        """Return the size of each decoded bitmap in bytes (int64, m)."""
        longer = segment_sums(self.lengths, self.mark_offsets) - np.diff(self.mark_offsets)
        return np.diff(self.offsets) + longer

    def part(self, chosen: slice) -> _StoredGaps:
        """Return the bitmaps with the numbers `chosen`, without copying their bytes."""
        offsets, marks = (bounds[chosen.start : chosen.stop + 1] for bounds in (self.offsets, self.mark_offsets))
        data, lengths = self.data[offsets[0] : offsets[-1]], self.lengths[marks[0] : marks[-1]]
        return _StoredGaps(data, offsets - offsets[0], lengths, marks - marks[0])


def _stored(columns: Sequence[pa.Array]) -> _StoredGaps:
    return _StoredGaps(*binary_values(columns[0]), *list_values(columns[1]))


def _merged(many: NDArray[Any], few: NDArray[Any], before: NDArray[np.int64]) -> NDArray[Any]:
    """Return `many` with the values of `few` inserted.

    few[i] is inserted before many[before[i]], as `np.insert` does; `before` is ascending.
    """
    merged = np.empty(len(many) + len(few), many.dtype)
    at = before + np.arange(len(few))
    merged[at] = few
    from_many = np.ones(len(merged), bool)
    from_many[at] = False
    merged[from_many] = many
    return merged


def _marks(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the positions of 0x00 and 0xFF in `data`."""
    return np.flatnonzero((data + np.uint8(1)) < 2)


def _require_fit(stored: _StoredGaps, rows: NDArray[np.int64]) -> None:
    """Require that each bitmap has the size of its block.

    Raises CorruptBitmap unless each bitmap has ceil(rows / 8) bytes, and its last byte has no bit beyond the last row.
    """
    require(stored.decoded() == byte_lengths(rows), "its decoded bytes are not ceil(rows / 8)")
    filled = np.diff(stored.offsets) > 0
    beyond = np.zeros(len(rows), np.uint8)
    beyond[filled] = stored.data[stored.offsets[1:][filled] - 1] & ~tail_bits(rows[filled])
    require(beyond == 0, "it has bits behind the last row")


def _require_marks(stored: _StoredGaps, marks: NDArray[np.int64]) -> None:
    """Require one gap length for each mark.

    Raises CorruptBitmap unless bitmap i has marks[i] gap lengths, none of them below 1.
    """
    require(marks == np.diff(stored.mark_offsets), "its gap lengths are not as many as its bytes 0x00 and 0xFF")
    if len(stored.lengths) and stored.lengths.min() < 1:
        require(segment_sums(stored.lengths < 1, stored.mark_offsets) == 0, "it has a gap length below 1")


def _checked_marks(stored: _StoredGaps) -> NDArray[np.int64]:
    marks = _marks(stored.data)
    _require_marks(stored, np.diff(np.searchsorted(marks, stored.offsets)))
    return marks


def _cached(stored: _StoredGaps) -> CachedBitmaps:
    """Return the bitmaps as PlainBitmaps or SparseBitmaps.

    PlainBitmaps are faster to OR, and are returned if they need at most twice the memory of SparseBitmaps.
    """
    decoded = stored.decoded()
    if decoded.sum() > 2 * SPARSE_BYTES * np.count_nonzero(stored.data):
        return _sparse(stored)
    repeats = np.ones(len(stored.data), np.int64)
    repeats[_checked_marks(stored)] = stored.lengths
    return PlainBitmaps(np.repeat(stored.data, repeats), offsets_of(decoded))


def _sparse(stored: _StoredGaps) -> SparseBitmaps:
    """Return the non-zero bytes of the bitmaps.

    The position of a byte in its decoded bitmap is its position in the stored bitmap, plus, for every mark before it,
    the length of the run less one.
    """
    at = np.flatnonzero(stored.data != 0)
    value = stored.data[at]
    first = np.searchsorted(at, stored.offsets)
    full = np.flatnonzero(value == 0xFF)
    marks_before = at - np.arange(len(at))  # the marks 0x00; the marks 0xFF are added below
    if len(full):
        marks_before += np.repeat(np.arange(len(full) + 1), np.diff(full + 1, prepend=0, append=len(at)))
    sizes = np.diff(stored.offsets)
    _require_marks(stored, sizes - np.diff(first) + np.diff(np.searchsorted(full, first)))
    longer = np.zeros(len(stored.lengths) + 1, np.int64)
    longer[1:] = stored.lengths
    longer[1:] -= 1
    np.cumsum(longer, out=longer)
    owned = longer[stored.mark_offsets]
    at += longer[marks_before]
    at -= np.repeat(stored.offsets[:-1] + owned[:-1], np.diff(first))
    run = stored.lengths[marks_before[full]]
    last = np.zeros(len(sizes), np.uint8)
    filled = sizes > 0
    last[filled] = stored.data[stored.offsets[1:][filled] - 1]
    return SparseBitmaps(
        first=first,
        position=at.astype(np.int32),
        value=value,
        full=full[run > 1],
        run=run[run > 1],
        lengths=sizes + np.diff(owned),
        last=last,
    )
