"""Write and check the CRC-32 checksums of all files of a generation.

The checksums keep a flipped bit from changing an answer. Parquet has checksums of its pages, but not of page headers
and footers, and a flipped bit in a footer can crash the process inside Arrow. Therefore `_manifest/checksums` (JSON)
holds a list of checksums for each file name. A manifest file or cardinality file has one checksum. A shard has a
checksum for its footer, then a checksum for each column chunk, row group by row group. A generation without
`_manifest/checksums` is not checked.

A read of a generation may fail because a file is damaged. A read may also fail because the index was dropped or
rebuilt: queries use a generation for some seconds after it was replaced, see `catalog.INDEX_CACHE_SECONDS`. In each
case the query reads the base files whole.
"""

from __future__ import annotations

import json
import logging
import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.memory_budget import cached
from hive_bitmap.errors import CorruptBitmap, CorruptIndex, DroppedIndex

FOLDER = "_manifest"
NAME = "checksums"
_TRAILER = 8  # bytes at the end of a Parquet file: length of the footer (4), magic (4)
Unreadable: TypeAlias = CorruptIndex | CorruptBitmap


def of_shard(source: pa.NativeFile) -> list[int]:
    """Compute a shard's checksums: of the footer, then of each column chunk."""
    chunks = _chunks(pq.read_metadata(source))
    return [zlib.crc32(_footer(source)), *(zlib.crc32(source.read_at(size, start)) for start, size in chunks)]


def write(folder: str, sums: Mapping[str, Sequence[int]]) -> None:
    """Write the checksums of a generation into its folder.

    `sums` has the checksums of each file, by file name.
    """
    with stores.open_output(f"{folder}/{FOLDER}/{NAME}", private=True) as sink:
        sink.write(json.dumps({name: list(values) for name, values in sums.items()}).encode())


def read(folder: str) -> Mapping[str, Sequence[int]]:
    """Return the checksums of the files of a generation, by file name.

    The mapping is empty if the generation has no checksums. Raises OSError if the checksums are unreadable.
    """
    try:
        return of_generation(folder)
    except FileNotFoundError:  # not cached: the file may exist the next time
        return {}


def _bytes(by_name: Mapping[str, Sequence[int]]) -> int:
    return sum(200 + len(name) + 40 * len(sums) for name, sums in by_name.items())  # an int and its place are 40 bytes


@cached("checksums", _bytes)
def of_generation(folder: str) -> Mapping[str, Sequence[int]]:
    """Return the checksums of the files of a generation, by file name.

    The checksums never change, so they are cached. Raises FileNotFoundError if there are no checksums, and OSError if
    they cannot be read.
    """
    try:
        by_name = json.loads(stores.read_immutable(f"{folder}/{FOLDER}/{NAME}"))
    except (ValueError, RecursionError) as e:
        raise OSError(f"its checksums cannot be read: {e}") from e
    sums = by_name.values() if isinstance(by_name, dict) else [None]
    if not all(
        isinstance(file_sums, list) and file_sums and all(isinstance(crc, int) for crc in file_sums)
        for file_sums in sums
    ):
        raise OSError("its checksums cannot be read: they are not lists of numbers by file name")
    return cast(Mapping[str, Sequence[int]], by_name)


def require(content: bytes | pa.Buffer, sums: Sequence[int] | None) -> None:
    """Raise OSError unless the checksum of `content` is sums[0].

    `sums` are the recorded checksums of a file; if `sums` is None, nothing is checked. For a shard, `content` is the
    footer. For a manifest file or a cardinality file, `content` is the whole file.
    """
    if sums is not None and zlib.crc32(content) != sums[0]:
        raise OSError("its checksum is wrong")


def footer_of(source: pa.NativeFile, sums: Sequence[int] | None) -> pq.FileMetaData:
    """Return the footer of a shard, checked before Arrow parses it.

    The first of `sums` is the checksum of the footer; if `sums` is None, nothing is checked. Raises OSError or
    ArrowInvalid.
    """
    require(_footer(source), sums)
    return pq.read_metadata(source)


def chunks_of(source: pa.NativeFile, metadata: pq.FileMetaData, sums: Sequence[int] | None) -> pa.NativeFile:
    """Return the shard as a file that checks column chunks when they are read.

    Each read must cover whole column chunks, and raises OSError if a checksum is wrong. If `sums` is None, nothing is
    checked.
    """
    if sums is None:
        return source
    return pa.PythonFile(_CheckedFile(source, dict(zip(_chunks(metadata), sums[1:], strict=True))), mode="r")


class _CheckedFile:
    """A Python file object that checks each read.

    `sums` has the checksum of each range (start, size) in bytes. A read must cover whole ranges.
    """

    closed = False

    def __init__(self, source: pa.NativeFile, sums: Mapping[tuple[int, int], int]) -> None:
        self.source, self.sums, self.position = source, sorted(sums.items()), 0
        self.starts = [start for (start, _), _ in self.sums]

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + (0, self.position, self.source.size())[whence]
        return self.position

    def tell(self) -> int:
        return self.position

    def read(self, size: int) -> bytes:
        first, end = self.position, self.position + size
        content: bytes = self.source.read_at(size, first)
        view = memoryview(content)
        for (start, length), expected in self.sums[max(bisect_right(self.starts, first) - 1, 0) :]:
            if start >= end:
                break
            if start + length <= first:
                continue
            if start < first or start + length > end or zlib.crc32(view[start - first :][:length]) != expected:
                raise OSError(f"the checksum of its {length} bytes from {start} on is wrong")
        self.position += len(content)
        return content

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False


def _footer(source: pa.NativeFile) -> bytes:
    size = source.size()
    if size < _TRAILER:
        raise OSError(f"it has {size} bytes")
    length = int.from_bytes(source.read_at(_TRAILER, size - _TRAILER)[:4], "little") + _TRAILER
    content: bytes = source.read_at(min(length, size), max(size - length, 0))
    return content


def _chunks(metadata: pq.FileMetaData) -> list[tuple[int, int]]:
    """Return the range of bytes that Arrow reads for each column chunk.

    A range is a pair (start, size) in bytes. The ranges are in the order of the row groups, then of the columns.
    """
    chunks = []
    for ordinal in range(metadata.num_row_groups):
        group = metadata.row_group(ordinal)
        for number in range(group.num_columns):
            chunk = group.column(number)
            start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            chunks.append((min(start, chunk.data_page_offset), chunk.total_compressed_size))
    return chunks


def error(folder: str, file: str, cause: Exception) -> CorruptIndex:
    """Return the error for a file that could not be read.

    `folder` is the generation of the file, `file` describes the file in the message, and `cause` is the error of the
    read. The result is a DroppedIndex if the file and the manifest of its generation no longer exist, otherwise another
    CorruptIndex.
    """
    if isinstance(cause, FileNotFoundError) and not stores.exists(f"{folder}/{FOLDER}"):
        return DroppedIndex(f"generation {folder} or its manifest no longer exists")
    return CorruptIndex(f"{file} of {folder} cannot be read: {cause}")


def log_whole(log: logging.Logger, index: str, error: Unreadable) -> None:
    """Log why the base files of an index are read whole."""
    if isinstance(error, DroppedIndex):
        log.info("%s was dropped or rebuilt during the query, so its files are read whole: %s", index, error)
    else:
        log.warning("%s is damaged, so its files are read whole until it is rebuilt in full: %s", index, error)
