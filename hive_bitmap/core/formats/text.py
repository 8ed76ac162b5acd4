"""Find the units of a text file, which are its lines.

A line is identified by the position of its first byte. Lines end at \\n, \\r or \\r\\n, as in Hadoop. Hadoop's rule is
`readDefaultLine` in
https://github.com/apache/hadoop/blob/rel/release-3.4.1/hadoop-common-project/hadoop-common/src/main/java/org/apache/hadoop/util/LineReader.java.

Hadoop recognises compressed files by their names. A gzip or deflate file cannot be split: the whole file is a single
unit, at offset 0.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hive_bitmap.core.formats.blocks import COMPRESSED_TEXTS, DEFLATE, Longs, Units
from hive_bitmap.core.formats.key_values import decoding
from hive_bitmap.errors import Undecodable

CHUNK_BYTES = 4 << 20
OTHER_CODECS = (".bz2", ".lz4", ".snappy", ".zst", ".lzo", ".lzo_deflate", ".passthrough")
_NEW_LINE, _RETURN = 10, 13


def units(source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
    """Yield the lines that start from byte `start` to before `end`.

    `start` is 0 or the offset of a line. For a gzip or deflate file, the whole file is yielded as one unit. Raises
    Undecodable for a codec that is not supported, and for a damaged compressed file.
    """
    if path.endswith(OTHER_CODECS):
        raise Undecodable(f"text compressed as {path.rpartition('.')[2]} is not supported: use gzip or deflate")
    if path.endswith(COMPRESSED_TEXTS):
        chunks = _inflated(source) if path.endswith(DEFLATE) else _unzipped(source)
        yield Units(np.zeros(1, np.int64), np.array([_count(chunks)], np.int64))
        return
    if start < end:
        yield _lines(np.array([start], np.int64))
    for at in range(start, end, CHUNK_BYTES):
        data = source.read_at(min(CHUNK_BYTES + 1, end - at), at)  # one byte more, because a \n may follow a \r
        starts = at + _line_ends(np.frombuffer(data, np.uint8), CHUNK_BYTES)
        yield _lines(starts[starts < end])


def _line_ends(data: np.ndarray[tuple[int], np.dtype[np.uint8]], count: int) -> Longs:
    """Return the positions after the line ends in the first `count` bytes.

    The positions are ascending. `data` has one byte more than `count`, unless the text ends earlier. The additional
    byte is needed if the last of the `count` bytes is a \\r: a \\n after this \\r belongs to the same line end.
    """
    head = data[:count]
    ends = head == _NEW_LINE
    if (returns := head == _RETURN).any():
        followed = np.zeros(len(head), bool)
        following = data[1 : count + 1] == _NEW_LINE
        followed[: len(following)] = following
        ends |= returns & ~followed
    return np.flatnonzero(ends) + 1


def _count(chunks: Iterator[bytes]) -> int:
    """Return the number of lines in these chunks of a text."""
    ended, waiting = 0, b""  # the last byte of a chunk waits for the first byte of the next chunk
    for chunk in chunks:
        data = waiting + chunk
        ended += len(_line_ends(np.frombuffer(data, np.uint8), max(len(data) - 1, 0)))
        waiting = data[-1:]
    return ended + len(waiting)


def _unzipped(source: pa.NativeFile) -> Iterator[bytes]:
    with decoding("its gzip stream"), pa.CompressedInputStream(source, "gzip") as stream:
        while data := stream.read(CHUNK_BYTES):
            yield data


def _inflated(source: pa.NativeFile) -> Iterator[bytes]:
    """Yield the content of concatenated zlib streams."""
    stream = zlib.decompressobj()
    try:
        while data := source.read(CHUNK_BYTES):
            while data:
                yield stream.decompress(data)
                data = stream.unused_data
                stream = zlib.decompressobj() if stream.eof else stream
    except zlib.error as error:
        raise Undecodable(f"deflate: {error}") from error


def _lines(offset: Longs) -> Units:
    return Units(offset, np.ones(len(offset), np.int64))
