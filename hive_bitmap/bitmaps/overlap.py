"""How many rows many stored bitmaps share with a selection, without a selection of their own for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hive_bitmap.bitmaps import ENCODINGS, gap
from hive_bitmap.bitmaps.ragged import offsets_of, segment_sums, spans
from hive_bitmap.bitmaps.writing import byte_lengths

_PIECE = 4 << 20  # bytes of decoded bitmaps at a time
_SPARSE = 8  # times as many decoded bytes as stored ones: then those that are stored are looked at one by one
_WIDE = 256  # mean bytes of a bitmap: from here on each is one slice


def shared(
    encoding: str,
    selections: Sequence[NDArray[np.uint8]],
    columns: Sequence[pa.Array],
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For each selection, how many rows of each of the m stored bitmaps it holds too: an array of selections x m.

    Bitmap i belongs to a block of rows[i] rows that begins at byte starts[i] of the selections. Raises CorruptBitmap
    for a bitmap that does not fit its block.
    """
    whole = int(byte_lengths(rows).sum())
    if encoding == gap.NAME and whole > _SPARSE * columns[0].nbytes:
        return np.array([gap.shared(bits, columns, starts, rows) for bits in selections], np.int64)
    counts = np.zeros((len(selections), len(rows)), np.int64)
    for some in _pieces(byte_lengths(rows)):
        lengths = byte_lengths(rows[some])
        offsets = offsets_of(lengths)
        own = np.zeros(offsets[-1], np.uint8)
        ENCODINGS[encoding].decode_into(own, [column[some] for column in columns], offsets[:-1], rows[some])
        for number, bits in enumerate(selections):
            counts[number, some] = segment_sums(np.bitwise_count(own & _bytes_at(bits, starts[some], lengths)), offsets)
    return counts


def _pieces(lengths: NDArray[np.int64]) -> Iterator[slice]:
    offsets = offsets_of(lengths)
    begin = 0
    while begin < len(lengths):
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + _PIECE, "right")) - 1)
        yield slice(begin, end)
        begin = end


def _bytes_at(bits: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bytes [starts[i], starts[i] + lengths[i]) of a selection, end to end."""
    if lengths.sum() < _WIDE * len(lengths):
        return bits[spans(starts, lengths)]
    return np.concatenate(
        [bits[at : at + length] for at, length in zip(starts.tolist(), lengths.tolist(), strict=True)]
    )
