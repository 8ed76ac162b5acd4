"""Write the selected files and blocks as text for Spark's own reader.

The text has a line for each file; `NarrowedRelations.java` reads the lines. Blocks are written as byte ranges. Adjacent
selected blocks share a range. The range begins at the first byte of the first of these blocks. It ends at the first
byte of the next block that is not selected, or at the end of the file. Spark reads a Parquet row group if its middle
lies in a range, and an ORC stripe if its first byte does; for Parquet see `filterFileMetaDataByMidpoint` in
org/apache/parquet/format/converter/ParquetMetadataConverter.java of
https://github.com/apache/parquet-java/tree/apache-parquet-1.15.2/parquet-hadoop/src/main/java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.selecting.lookup_units import Longs, Place
from hive_bitmap.core.selecting.split_order import Piece, WholePiece, block_starts
from hive_bitmap.core.stores import IMMUTABLE


def file_choices(results: LookupResults, numbers: Mapping[Place, int], *, whole_files: bool) -> str:
    """Return the lines, as one text, that tell Spark's reader which blocks to read.

    There is a line for each file that is fresh in the index, unless its index rows are damaged. A file without a line
    is read whole. A line has the file's number, fingerprint and ranges, separated by tabs. A file's number is its
    position in the scan's listing, and `numbers` has this number for each file. The ranges cover the selected blocks.
    With `whole_files`, the only range is the whole file, if any of its blocks is selected. A file without selected
    blocks has a line without ranges.
    """
    lines = []
    for lookup, candidates in results.pairs():
        first_blocks = np.searchsorted(lookup.unit.file, np.arange(len(lookup.unit.paths) + 1))
        for file, fingerprint in enumerate(lookup.fingerprints):
            if file in candidates.damaged:
                continue
            selected = candidates.counts[first_blocks[file] : first_blocks[file + 1]] > 0
            starts = None if whole_files else block_starts(lookup, file, len(selected))
            ranges = _ranges(selected, starts, fingerprint.size)
            partition = results.partitions[lookup.partitions[file]]
            number = numbers[Place(partition.number, fingerprint.path)]
            lines.append(_line(number, fingerprint, ranges))
    return "\n".join(lines)


def split_choices(results: LookupResults, numbers: Mapping[Place, int], pieces: Sequence[Piece | WholePiece]) -> str:
    """Return the lines that select the splits among `pieces`.

    The splits are the pieces of class WholePiece, each of a file in the `whole_files` of `results`. Other pieces are
    ignored. `numbers` has the position of each file in the scan's listing. Spark's own reader reads the splits, even if
    the files have changed.
    """
    ranges: dict[tuple[int, int], list[int]] = {}
    for piece in pieces:
        if not isinstance(piece, WholePiece):
            continue
        whole = results.whole_files[piece.whole]
        partition, path, size = whole.partition, whole.status.path, whole.status.size
        number = numbers[Place(results.partitions[partition].number, path)]
        ranges.setdefault((number, size), []).extend((piece.split.start, piece.split.end))
    return _any_state(ranges)


def indexed_choices(results: LookupResults, numbers: Mapping[Place, int]) -> str:
    """Return the lines that select all looked-up files as a whole.

    `numbers` has the position of each file in the scan's listing. Spark's own reader reads the files, even if the files
    have changed.
    """
    ranges: dict[tuple[int, int], list[int]] = {}
    for lookup in results.lookups:
        for partition, path, size in zip(lookup.partitions, lookup.unit.paths, lookup.sizes.tolist(), strict=True):
            ranges[numbers[Place(results.partitions[partition].number, path)], size] = [0, size]
    return _any_state(ranges)


def _any_state(ranges: Mapping[tuple[int, int], Sequence[int]]) -> str:
    """Return the lines that select ranges of files, even if the files have changed.

    A key of `ranges` is a pair: the file's position in the scan's listing, and its size. The value has the bytes where
    the ranges of this file begin and end: begin, end, begin, end and so on.
    """
    return "\n".join(
        _line(number, Fingerprint(path="", size=size, mtime_ms=0, tail_crc32=0, etag=IMMUTABLE), sorted(edges))
        for (number, size), edges in ranges.items()
    )


def _line(number: int, indexed: Fingerprint, ranges: Sequence[int]) -> str:
    return "\t".join(map(str, (number, indexed.size, indexed.mtime_ms, indexed.tail_crc32, indexed.etag, *ranges)))


def _ranges(selected: npt.NDArray[np.bool_], starts: Longs | None, size: int) -> list[int]:
    """Return the begin and end, in bytes, of each run of selected blocks.

    `starts` has the position of each block in bytes, and `size` is the size of the file. If `starts` is None and any
    block is selected, the range is the whole file.

    >>> _ranges(np.array([True, True, False, True]), np.array([4, 10, 20, 30]), 50)
    [4, 20, 30, 50]
    """
    if not selected.any():
        return []
    if starts is None:
        return [0, size]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], selected, [False]]).astype(np.int8)))
    return [int(edge) for edge in np.append(starts, size)[edges]]
