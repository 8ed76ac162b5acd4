"""Bitmaps kept in memory between queries, in a form that is soon in a selection.

The forms agree in what they do (`CachedBitmaps`), and differ in how full their bitmaps are: `EncodedBitmaps` has all
bytes, `Sparse` the non-zero ones. `AsStored` leaves bitmaps as they are, to be decoded whenever they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.bitmaps.ragged import offsets_of, require, segment_sums, spans
from hive_bitmap.bitmaps.writing import byte_lengths, fill, or_bytes, or_slices, tail_bits

Bits = NDArray[np.uint8]
Longs = NDArray[np.int64]
BYTES_OF_ONE = 5  # that `Sparse` takes for a byte
_PIECE = 4 << 20  # bytes of decoded bitmaps at a time
_WIDE = 256  # mean bytes of a bitmap: from here on each is one slice
_SHORT = 256  # mean bytes that lie apart: below, one by one they take longer than a look for those that meet


class CachedBitmaps(Protocol):
    """m bitmaps. Those asked for have ascending numbers `which`; bitmap which[i] belongs to a block of rows[i] rows
    that begins at byte starts[i] of a selection. CorruptBitmap is raised for one that does not fit its block, before
    any is used."""

    @property
    def nbytes(self) -> int:
        """What they take in memory, in bytes."""

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """OR bitmaps into `bits`, and say how many bytes were looked at. Rows not in `within` may be left out."""

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """For each selection, how many rows of each bitmap it holds too: selections x len(which)."""


@dataclass(frozen=True)
class EncodedBitmaps:
    """All bytes of the bitmaps, end to end: bitmap i has the bytes [offsets[i], offsets[i+1]) of `data`."""

    data: Bits
    offsets: Longs  # m + 1

    @property
    def nbytes(self) -> int:
        """What they take in memory, in bytes."""
        return self.data.nbytes + self.offsets.nbytes

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """As `CachedBitmaps` says."""
        nbytes = self.require_fit(which, rows)
        or_slices(bits, starts, self.data, self.offsets[which], nbytes)
        return int(nbytes.sum())

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """As `CachedBitmaps` says."""
        nbytes, begins = self.require_fit(which, rows), self.offsets[which]
        counts = np.zeros((len(selections), len(which)), np.int64)
        for some in _pieces(nbytes):
            own, offsets = _bytes_at(self.data, begins[some], nbytes[some]), offsets_of(nbytes[some])
            for number, bits in enumerate(selections):
                both = own & _bytes_at(bits, starts[some], nbytes[some])
                counts[number, some] = segment_sums(np.bitwise_count(both), offsets)
        return counts

    def require_fit(self, which: Longs, rows: Longs) -> Longs:
        """The bytes of each bitmap. Raises CorruptBitmap for one that does not fit its block."""
        nbytes, ends = byte_lengths(rows), self.offsets[which + 1]
        require(ends - self.offsets[which] == nbytes, "its bytes are not ceil(rows / 8)")
        filled = nbytes > 0
        beyond = np.zeros(len(rows), np.uint8)
        beyond[filled] = self.data[ends[filled] - 1] & ~tail_bits(rows[filled])
        require(beyond == 0, "it has bits behind the last row")
        return nbytes


@dataclass(frozen=True)
class Sparse:
    """The non-zero bytes of the bitmaps: bitmap i has [first[i], first[i+1]) of them.

    Of a run of 0xFF only the first byte is here; it is longer than one for the bytes `full`.
    """

    first: Longs  # m + 1
    position: NDArray[np.int32]  # of each byte in its bitmap
    value: Bits
    full: Longs
    run: NDArray[np.int32]  # the lengths of the runs that the bytes `full` begin
    lengths: Longs  # m: the bytes of each whole bitmap
    last: Bits  # m: the last byte of each, 0 where it has none

    @property
    def nbytes(self) -> int:
        """What they take in memory, in bytes."""
        parts = (self.first, self.position, self.value, self.full, self.run, self.lengths, self.last)
        return sum(part.nbytes for part in parts)

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """As `CachedBitmaps` says."""
        placed = self._placed(which, starts, rows)
        at, value = placed.at, placed.value
        if within is not None:
            held = np.flatnonzero(within[at] & value)
            or_bytes(bits, at[held], value[held])
        elif len(at) < _SHORT * len(placed.apart):
            or_bytes(bits, at, value)
        else:
            for begin, end in pairwise(placed.apart.tolist()):
                bits[at[begin:end]] |= value[begin:end]
        fill(bits, at[placed.full], placed.run)
        return BYTES_OF_ONE * len(at)

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """As `CachedBitmaps` says."""
        placed = self._placed(which, starts, rows)
        runs, begin = np.searchsorted(placed.full, placed.first), placed.at[placed.full]
        counts = np.zeros((len(selections), len(which)), np.int64)
        for number, bits in enumerate(selections):
            counts[number] = segment_sums(np.bitwise_count(bits[placed.at] & placed.value), placed.first)
            if len(begin):
                before = offsets_of(np.bitwise_count(bits).astype(np.int64))
                counts[number] += segment_sums(before[begin + placed.run] - before[begin + 1], runs)
        return counts

    def _placed(self, which: Longs, starts: Longs, rows: Longs) -> _Placed:
        require(self.lengths[which] == byte_lengths(rows), "its decoded bytes are not ceil(rows / 8)")
        require((self.last[which] & ~tail_bits(rows)) == 0, "it has bits behind the last row")
        begin = self.first[which]
        lengths = self.first[which + 1] - begin
        first = offsets_of(lengths)
        chosen: slice | Longs
        if _neighbours(which):
            chosen = slice(int(begin[0]), int(begin[0] + first[-1]))
            runs = slice(*np.searchsorted(self.full, (chosen.start, chosen.stop)).tolist())
            full, run = self.full[runs] - chosen.start, self.run[runs]
        else:
            chosen = spans(begin, lengths)
            full, mine, _ = np.intersect1d(chosen, self.full, assume_unique=True, return_indices=True)
            full, run = mine, self.run[np.searchsorted(self.full, full)]
        at = self.position[chosen].astype(np.int64)
        at += np.repeat(starts, lengths)
        apart = first[np.concatenate(([0], np.flatnonzero(starts[1:] <= starts[:-1]) + 1, [len(starts)]))]
        return _Placed(at, self.value[chosen], first, apart, full, run.astype(np.int64))


@dataclass(frozen=True)
class _Placed:
    """Bytes of some bitmaps, and where in a selection they lie."""

    at: Longs
    value: Bits
    first: Longs  # bitmap i of these has the bytes [first[i], first[i+1])
    apart: Longs  # no two of the bytes [apart[i], apart[i+1]) lie in one place
    full: Longs  # the bytes that begin runs
    run: Longs


@dataclass(frozen=True)
class AsStored:
    """Bitmaps in their stored columns, with the `decode_into` of their encoding."""

    columns: Sequence[pa.Array]
    decode_into: Callable[[Bits, Sequence[pa.Array], Longs, Longs], None]

    @property
    def nbytes(self) -> int:
        """What they take in memory, in bytes."""
        return sum(column.nbytes for column in self.columns)

    def or_into(self, bits: Bits, which: Longs, starts: Longs, rows: Longs, within: Bits | None = None) -> int:
        """As `CachedBitmaps` says."""
        columns = self._taken(which)
        self.decode_into(bits, columns, starts, rows)
        return sum(column.nbytes for column in columns)

    def shared(self, selections: Sequence[Bits], which: Longs, starts: Longs, rows: Longs) -> Longs:
        """As `CachedBitmaps` says."""
        columns, nbytes = self._taken(which), byte_lengths(rows)
        counts = np.zeros((len(selections), len(which)), np.int64)
        for some in _pieces(nbytes):
            whole = EncodedBitmaps(np.zeros(nbytes[some].sum(), np.uint8), offsets_of(nbytes[some]))
            self.decode_into(whole.data, [column[some] for column in columns], whole.offsets[:-1], rows[some])
            counts[:, some] = whole.shared(selections, np.arange(some.stop - some.start), starts[some], rows[some])
        return counts

    def _taken(self, which: Longs) -> list[pa.Array]:
        if _neighbours(which):  # these are not copied
            return [column.slice(int(which[0]), len(which)) for column in self.columns]
        return [column.take(pa.array(which)) for column in self.columns]


def _neighbours(which: Longs) -> bool:
    """Whether ascending numbers have no gap."""
    return len(which) > 0 and int(which[-1] - which[0]) + 1 == len(which)


def _pieces(lengths: Longs) -> Iterator[slice]:
    offsets = offsets_of(lengths)
    begin = 0
    while begin < len(lengths):
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + _PIECE, "right")) - 1)
        yield slice(begin, end)
        begin = end


def _bytes_at(data: Bits, begins: Longs, lengths: Longs) -> Bits:
    """The bytes [begins[i], begins[i] + lengths[i]) of `data`, end to end."""
    if lengths.sum() < _WIDE * len(lengths):
        return data[spans(begins, lengths)]
    return np.concatenate(
        [data[begin : begin + length] for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True)]
    )
