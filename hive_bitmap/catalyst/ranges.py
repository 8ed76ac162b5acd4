"""The files and blocks of a plan as Spark's own reader is told them: a line a file, read by `Native.java`.

A range goes from the first byte of a selected block to that of the next one that is not; neighbours share one. Spark
takes of a range the Parquet row groups whose middle, and the ORC stripes whose first byte, lies in it; for the former
see `filterFileMetaDataByMidpoint` in org/apache/parquet/format/converter/ParquetMetadataConverter.java of
https://github.com/apache/parquet-java/tree/apache-parquet-1.15.2/parquet-hadoop/src/main/java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hive_bitmap.index.fingerprint import Fingerprint
from hive_bitmap.index.manifest import Manifest
from hive_bitmap.selecting.candidates import LookupResults
from hive_bitmap.stores import FileStatus

Longs = npt.NDArray[np.int64]


def choices(work: LookupResults, listed: Sequence[FileStatus], *, whole_files: bool) -> str:
    """What is read of each listed file that the index knows as it is: number, fingerprint and ranges, between tabs.

    A file without a line is read whole. With `whole_files` no blocks are told apart.
    """
    numbers = {status.path: number for number, status in enumerate(listed)}
    # two partitions may have one folder, and not the same rows selected in it
    twice = {status.path for number, status in enumerate(listed) if numbers[status.path] != number}
    lines = []
    for lookup, found in zip(work.lookups, work.found, strict=True):
        manifests = work.partitions[lookup.partition].manifests
        bounds = np.searchsorted(lookup.unit.file, np.arange(len(lookup.unit.paths) + 1))
        for file, fingerprint in enumerate(lookup.fingerprints):
            if file in found.damaged or fingerprint.path in twice:
                continue
            selected = found.counts[bounds[file] : bounds[file + 1]] > 0
            starts = None if whole_files else _starts(manifests, fingerprint.path, len(selected))
            ranges = _ranges(selected, starts, fingerprint.size)
            lines.append(_line(numbers[fingerprint.path], fingerprint, ranges))
    return "\n".join(lines)


def _line(number: int, known: Fingerprint, ranges: Sequence[int]) -> str:
    return "\t".join(map(str, (number, known.size, known.mtime_ms, known.tail_crc32, known.etag, *ranges)))


def _starts(manifests: Mapping[str, Manifest], path: str, blocks: int) -> Longs | None:
    """The first byte of each block; None where no manifest tells, or they do not ascend."""
    for manifest in manifests.values():
        row = manifest.row_of.get(path)
        found = None if row is None else manifest.starts_of[row]
        if found is not None and len(found) == blocks and bool((np.diff(found) > 0).all()):
            return found
    return None


def _ranges(selected: npt.NDArray[np.bool_], starts: Longs | None, size: int) -> list[int]:
    """Begin and end of each run of selected blocks.

    >>> _ranges(np.array([True, True, False, True]), np.array([4, 10, 20, 30]), 50)
    [4, 20, 30, 50]
    """
    if not selected.any():
        return []
    if starts is None:
        return [0, size]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], selected, [False]]).astype(np.int8)))
    return [int(edge) for edge in np.append(starts, size)[edges]]
