"""Compute the row order of Spark's own scan of Parquet and ORC files.

Spark cuts each file into splits of a fixed size, starting at its first byte. Spark reads the largest splits first, and
splits of equal size in the order in which the files were listed. See `createReadRDD`:
https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/DataSourceScanExec.scala.
A Parquet row group belongs to the split that contains its middle, an ORC stripe to the split that contains its first
byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from hive_bitmap.core.selecting.candidates import Lookup, LookupResults
from hive_bitmap.core.selecting.lookup_units import Longs


@dataclass(frozen=True)
class Split:
    """A part of a file. `place` orders splits as Spark reads them."""

    place: tuple[int, int, int]  # the negative length, the number of the file, the number of the split in the file
    start: int  # first byte
    end: int  # the byte after the last byte


@dataclass(frozen=True)
class Piece:
    """The blocks of a file in one split."""

    lookup: int  # position of the lookup in `LookupResults.lookups`
    file: int  # position of the file in `LookupUnit.paths`
    first: int  # number of the first block in the lookup's unit
    end: int  # number of the last block plus 1
    split: Split


@dataclass(frozen=True)
class WholePiece:
    """One split of a file that is read whole.

    `whole` is the position of the file in `LookupResults.whole_files`.
    """

    whole: int
    split: Split


def splits(number: int, size: int, most: int) -> list[Split]:
    """Return the splits of a file, of `most` bytes each.

    The last split may be smaller. If `most` is 0, the whole file is a single split. `number` is the position of the
    file in listing order, and `size` its size in bytes.

    >>> [(split.start, split.end) for split in splits(0, 25, 10)]
    [(0, 10), (10, 20), (20, 25)]
    """
    starts = range(0, max(size, 1), most) if most else [0]
    edges = [*starts, size]
    return [Split((start - end, number, at), start, end) for at, (start, end) in enumerate(pairwise(edges))]


def pieces_in_order(results: LookupResults, format: str, most: int) -> list[Piece | WholePiece] | None:
    """Return all looked-up blocks and all whole files, in Spark's reading order.

    `format` is the format of the files. `most` is the size of the largest splits in bytes. If `most` is 0, each file is
    a single split, and the order is that of `results`. Return None if the blocks of a file cannot be assigned to
    splits.
    """
    numbers = _numbers(results) if most else {}
    pieces: list[Piece | WholePiece] = []
    for position, lookup in enumerate(results.lookups):
        edges = np.searchsorted(lookup.unit.file, np.arange(len(lookup.unit.paths) + 1)).tolist()
        for file, (path, size) in enumerate(zip(lookup.unit.paths, lookup.sizes.tolist(), strict=True)):
            first, end = edges[file], edges[file + 1]
            number = numbers[lookup.partitions[file], path] if most else 0
            cut = splits(number, size, most)
            bounds = [first, end]
            if len(cut) > 1:
                starts = block_starts(lookup, file, end - first)
                if starts is None:
                    return None
                middle = lookup.unit.length[first:end] // 2 if format == "parquet" else 0
                inner = [split.start for split in cut[1:]]
                bounds = [first, *(first + np.searchsorted(starts + middle, inner)).tolist(), end]
            pieces += [Piece(position, file, *edge, split) for split, edge in zip(cut, pairwise(bounds), strict=True)]
    for position, whole in enumerate(results.whole_files):
        number = numbers[whole.partition, whole.status.path] if most else 0
        cut = splits(number, whole.status.size, most)
        pieces += [WholePiece(position, split) for split in cut]
    return sorted(pieces, key=lambda piece: piece.split.place) if most else pieces


def _numbers(results: LookupResults) -> Mapping[tuple[int, str], int]:
    """Number the files in listing order.

    The keys of the result are pairs: the position of the partition in `results.partitions`, and the path of the file.
    """
    order = sorted(range(len(results.partitions)), key=lambda at: results.partitions[at].number)
    files = [(at, file.path) for at in order for file in results.partitions[at].files]
    return {place: number for number, place in enumerate(files)}


def block_starts(lookup: Lookup, file: int, blocks: int) -> Longs | None:
    """Return where each block of a file starts, in bytes.

    `file` is the position of the file in the lookup, and `blocks` is the number of its blocks. Return None if the index
    does not have a position for each block, or if the positions do not ascend.
    """
    starts = lookup.starts(file)
    is_complete = starts is not None and len(starts) == blocks and bool((np.diff(starts) > 0).all())
    return starts if is_complete else None


def runs(pieces: Sequence[Piece | WholePiece]) -> list[list[Piece | WholePiece]]:
    """Group adjacent pieces of the same class, Piece or WholePiece."""
    return [list(run) for _, run in groupby(pieces, key=type)]


def cut(weights: Sequence[float], parts: int) -> list[tuple[int, int]]:
    """Cut items into at most `parts` runs of about equal weight.

    Return the range (start, end) of each run.

    >>> cut([1, 1, 1, 3], 2)
    [(0, 3), (3, 4)]
    """
    ends = np.cumsum(weights)
    if not len(ends):
        return []
    part = np.minimum((ends - np.asarray(weights) / 2) * parts // max(ends[-1], 1e-9), parts - 1)
    edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(ends)]
    return list(pairwise(edges))
