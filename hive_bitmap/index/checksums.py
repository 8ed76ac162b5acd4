"""CRC-32 sums of all that is read of a generation: a flipped bit must not pass for another index.

Parquet sums its pages, but neither its page headers nor its footer; a flipped bit in a footer can even end the process
inside Arrow. So `_manifest/checksums` (JSON) holds, by file name, the sum of each manifest file, and of each shard
those of its footer and of its column chunks, row group by row group. A generation without that file is not checked.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap import stores

FOLDER = "_manifest"
NAME = "checksums"
_TRAILER = 8  # the length of the footer, and the magic


def of_shard(source: pa.NativeFile) -> list[int]:
    """The sums of a shard that was just written: of its footer, then of its column chunks."""
    chunks = _chunks(pq.read_metadata(source))
    return [zlib.crc32(_footer(source)), *(zlib.crc32(source.read_at(size, start)) for start, size in chunks)]


def write(folder: str, sums: Mapping[str, Sequence[int]]) -> None:
    """Keep the sums of a generation's files, by their names."""
    with stores.open_output(f"{folder}/{FOLDER}/{NAME}") as sink:
        sink.write(json.dumps({name: list(values) for name, values in sums.items()}).encode())


def read(folder: str) -> Mapping[str, Sequence[int]]:
    """The sums of a generation, none where it holds none. Raises OSError where they cannot be read."""
    try:
        return of_generation(folder)
    except FileNotFoundError:  # not kept: it may be there the next time
        return {}


@lru_cache(maxsize=256)
def of_generation(folder: str) -> Mapping[str, Sequence[int]]:
    """The sums of a generation, which never change. Raises FileNotFoundError, and OSError where they are not JSON."""
    try:
        found: Mapping[str, Sequence[int]] = json.loads(stores.read_kept(f"{folder}/{FOLDER}/{NAME}"))
        return found
    except ValueError as e:
        raise OSError(f"its checksums cannot be read: {e}") from e


def require(content: bytes | pa.Buffer, sums: Sequence[int] | None) -> None:
    """Raise OSError if the content is not that of the first of the sums; without sums nothing is asked."""
    if sums is not None and zlib.crc32(content) != sums[0]:
        raise OSError("its checksum is wrong")


def footer_of(source: pa.NativeFile, sums: Sequence[int] | None) -> pq.FileMetaData:
    """The footer of a shard, checked before it is parsed; raises OSError, ArrowInvalid."""
    require(_footer(source), sums)
    return pq.read_metadata(source)


def chunks_of(source: pa.NativeFile, metadata: pq.FileMetaData, sums: Sequence[int] | None) -> pa.NativeFile:
    """The shard as a file that gives whole column chunks only, side by side, and those only if their sums are right."""
    if sums is None:
        return source
    return pa.PythonFile(_Checked(source, dict(zip(_chunks(metadata), sums[1:], strict=True))), mode="r")


class _Checked:
    """A file in the manner of Python's, each of whose reads must be of known ranges; `sums` are of (start, size)."""

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
    """Start and size of each column chunk, as Arrow reads it."""
    found = []
    for ordinal in range(metadata.num_row_groups):
        group = metadata.row_group(ordinal)
        for number in range(group.num_columns):
            chunk = group.column(number)
            start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            found.append((min(start, chunk.data_page_offset), chunk.total_compressed_size))
    return found
