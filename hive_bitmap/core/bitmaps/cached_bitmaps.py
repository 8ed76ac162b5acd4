"""Hold bitmaps in memory between queries, in forms that are fast to OR.

All forms implement `CachedBitmaps`. `PlainBitmaps` keeps every byte and suits dense bitmaps; `SparseBitmaps` keeps only
the non-zero bytes; `StoredBitmaps` keeps the stored columns and decodes the bitmaps at each use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.core.bitmaps.ragged import offsets_of, pieces, require, segment_sums, spans
from hive_bitmap.core.bitmaps.selection import byte_lengths, fill, or_bytes, or_slices, tail_bits

Bits = NDArray[np.uint8]
Longs = NDArray[np.int64]
SPARSE_BYTES = 5  # memory that `SparseBitmaps` needs for each non-zero byte: an int32 position and the byte
_PIECE = 4 << 20  # most bytes of bitmaps that are decoded at a time
_WIDE = 256  # least mean size in bytes from which slicing each bitmap is faster than indexing all bytes at once
# Least mean number of bytes from which parts without repeated positions are ORed one by one. Smaller parts are faster
# together, by `or_bytes`, which checks for repeated positions.
_SHORT = 256


class CachedBitmaps(Protocol):
    """Bitmaps in memory, addressed by the numbers 0 to m-1.

    In all methods, `which` has the numbers of the requested bitmaps, ascending. Bitmap which[i] belongs to a block of
    rows[i] rows. The block's part of a selection begins at byte starts[i]. Before any bitmap is used, CorruptBitmap is
    raised for a bitmap that does not fit its block.
    """

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """OR the bitmaps into `bits`; return the number of bytes read.

        `bits` is a selection. Rows outside the selection `within` may be left out; if it is None, no row is left out.
        """

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """Count the rows that each selection shares with each requested bitmap.

        Bitmap which[j] belongs to a block of rows[j] rows; the block's part of a selection begins at byte starts[j].
        The result is a matrix (int64): entry [i, j] is the count for selections[i] and bitmap which[j].
        """


@dataclass(frozen=True)
class PlainBitmaps:
    """Bitmaps with all their bytes, end to end.

    Bitmap i is data[offsets[i]:offsets[i+1]].
    """

    data: Bits
    offsets: Longs  # m + 1

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return self.data.nbytes + self.offsets.nbytes

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """See `CachedBitmaps.or_into`."""
        nbytes = self.require_fit(which, rows)
        or_slices(bits, starts, self.data, self.offsets[which], nbytes)
        return int(nbytes.sum())

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """See `CachedBitmaps.shared`."""
        nbytes, begins = self.require_fit(which, rows), self.offsets[which]
        counts = np.zeros((len(selections), len(which)), np.int64)
        for piece in pieces(offsets_of(nbytes), _PIECE):
            stored, offsets = _bytes_at(self.data, begins[piece], nbytes[piece]), offsets_of(nbytes[piece])
            for number, bits in enumerate(selections):
                common = stored & _bytes_at(bits, starts[piece], nbytes[piece])
                counts[number, piece] = segment_sums(np.bitwise_count(common), offsets)
        return counts

    def require_fit(self, which: Longs, rows: Longs) -> Longs:
        """Return the size in bytes of each requested bitmap.

        `which` has the numbers of the requested bitmaps, and `rows` the number of rows of each bitmap's block. Raises
        CorruptBitmap for a bitmap that does not fit its block.
        """
        nbytes, ends = byte_lengths(rows), self.offsets[which + 1]
        require(ends - self.offsets[which] == nbytes, "its bytes are not ceil(rows / 8)")
        filled = nbytes > 0
        beyond = np.zeros(len(rows), np.uint8)
        beyond[filled] = self.data[ends[filled] - 1] & ~tail_bits(rows[filled])
        require(beyond == 0, "it has bits behind the last row")
        return nbytes


@dataclass(frozen=True, kw_only=True)
class SparseBitmaps:
    """Bitmaps given by their non-zero bytes.

    Bitmap i owns the entries first[i] to first[i+1] (exclusive) of `position` and `value`. An entry is a byte and its
    position in the bitmap. A run of bytes 0xFF is one entry, with the position of its first byte. `full` has the
    numbers of the entries that stand for runs longer than one byte, and `run` the lengths of these runs.
    """

    first: Longs  # m + 1
    position: NDArray[np.int32]  # of each byte in its bitmap
    value: Bits
    full: Longs
    run: NDArray[np.int32]  # in bytes
    lengths: Longs  # m: decoded size of each bitmap in bytes
    last: Bits  # m: the last byte of each bitmap, 0 if the bitmap is empty

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        parts = (self.first, self.position, self.value, self.full, self.run, self.lengths, self.last)
        return sum(part.nbytes for part in parts)

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """See `CachedBitmaps.or_into`."""
        placed = self._placed(which, starts, rows)
        at, value = placed.at, placed.value
        if within is not None:
            common = np.flatnonzero(within[at] & value)
            or_bytes(bits, at[common], value[common])
        elif len(at) < _SHORT * len(placed.apart):
            or_bytes(bits, at, value)
        else:
            for begin, end in pairwise(placed.apart.tolist()):
                bits[at[begin:end]] |= value[begin:end]
        fill(bits, at[placed.full], placed.run)
        return SPARSE_BYTES * len(at)

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """See `CachedBitmaps.shared`."""
        placed = self._placed(which, starts, rows)
        runs, begin = np.searchsorted(placed.full, placed.first), placed.at[placed.full]
        counts = np.zeros((len(selections), len(which)), np.int64)
        for number, bits in enumerate(selections):
            counts[number] = segment_sums(np.bitwise_count(bits[placed.at] & placed.value), placed.first)
            if len(begin):
                before = offsets_of(np.bitwise_count(bits).astype(np.int64))
                counts[number] += segment_sums(before[begin + placed.run] - before[begin + 1], runs)
        return counts

    def _placed(self, which: Longs, starts: Longs, rows: Longs) -> _PlacedBytes:
        require(self.lengths[which] == byte_lengths(rows), "its decoded bytes are not ceil(rows / 8)")
        require((self.last[which] & ~tail_bits(rows)) == 0, "it has bits behind the last row")
        begin = self.first[which]
        lengths = self.first[which + 1] - begin
        first = offsets_of(lengths)
        chosen: slice | Longs
        if _contiguous(which):
            chosen = slice(int(begin[0]), int(begin[0] + first[-1]))
            runs = slice(*np.searchsorted(self.full, (chosen.start, chosen.stop)).tolist())
            full, run = self.full[runs] - chosen.start, self.run[runs]
        else:
            chosen = spans(begin, lengths)
            full, in_chosen, _ = np.intersect1d(chosen, self.full, assume_unique=True, return_indices=True)
            full, run = in_chosen, self.run[np.searchsorted(self.full, full)]
        at = self.position[chosen].astype(np.int64)
        at += np.repeat(starts, lengths)
        apart = first[np.concatenate(([0], np.flatnonzero(starts[1:] <= starts[:-1]) + 1, [len(starts)]))]
        return _PlacedBytes(
            at=at, value=self.value[chosen], first=first, apart=apart, full=full, run=run.astype(np.int64)
        )


@dataclass(frozen=True, kw_only=True)
class _PlacedBytes:
    """The non-zero bytes of chosen bitmaps, with their positions in a selection.

    The entries are in the order of the bitmaps. As in `SparseBitmaps`, an entry is a byte or a run of bytes 0xFF.
    `value` has the bytes, and `at` has the positions of the entries in the selection. `apart` divides the entries into
    ranges, each without repeated positions.
    """

    at: Longs
    value: Bits
    first: Longs  # chosen bitmap i owns at[first[i]:first[i+1]]
    apart: Longs  # at[apart[i]:apart[i+1]] has no position twice
    full: Longs  # indexes into `at` of the entries that stand for a run of 0xFF longer than one byte
    run: Longs  # the lengths of these runs, in bytes


@dataclass(frozen=True)
class StoredBitmaps:
    """Bitmaps that stay encoded in memory.

    `columns` are the stored columns. The encoding's `decode_into` decodes the bitmaps at each use.
    """

    columns: Sequence[pa.Array]
    decode_into: Callable[[Bits, Sequence[pa.Array], Longs, Longs], None]

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return sum(column.nbytes for column in self.columns)

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """See `CachedBitmaps.or_into`."""
        columns = self._taken(which)
        self.decode_into(bits, columns, starts, rows)
        return sum(column.nbytes for column in columns)

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """See `CachedBitmaps.shared`."""
        columns, nbytes = self._taken(which), byte_lengths(rows)
        counts = np.zeros((len(selections), len(which)), np.int64)
        for piece in pieces(offsets_of(nbytes), _PIECE):
            whole = PlainBitmaps(np.zeros(nbytes[piece].sum(), np.uint8), offsets_of(nbytes[piece]))
            self.decode_into(whole.data, [column[piece] for column in columns], whole.offsets[:-1], rows[piece])
            counts[:, piece] = whole.shared(selections, np.arange(piece.stop - piece.start), starts[piece], rows[piece])
        return counts

    def _taken(self, which: Longs) -> list[pa.Array]:
        if _contiguous(which):  # a slice copies nothing
            return [column.slice(int(which[0]), len(which)) for column in self.columns]
        return [column.take(pa.array(which)) for column in self.columns]


def _contiguous(which: Longs) -> bool:
    """Return whether these ascending numbers have no gap."""
    return len(which) > 0 and int(which[-1] - which[0]) + 1 == len(which)


def _bytes_at(data: Bits, begins: Longs, lengths: Longs) -> Bits:
    """Return data[begins[i]:begins[i]+lengths[i]] for each i, end to end."""
    if lengths.sum() < _WIDE * len(lengths):
        return data[spans(begins, lengths)]
    return np.concatenate(
        [data[begin : begin + length] for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True)]
    )
