"""Find the units of an RCFile.

A unit has the row groups after one sync marker, and is identified by the offset of the marker's escape (see
`sequencefile`). The row groups between the header and the first marker are a unit too, identified by the end of the
header. Most row groups have a marker of their own; small row groups share a marker. A reader reads the row groups after
every marker that starts in the reader's split. RCFile calls the header of a row group its key; this header may be
compressed. The header begins with the number of rows of the row group. The module reads version 1 of the format,
described before the class in
https://github.com/apache/hive/blob/rel/release-2.3.9/ql/src/java/org/apache/hadoop/hive/ql/io/RCFile.java.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from hive_bitmap.core.formats.blocks import Units, in_batches
from hive_bitmap.core.formats.bytestream import SYNC_BYTES, ByteStream
from hive_bitmap.core.formats.key_values import decoding
from hive_bitmap.core.formats.sequencefile import between_marks
from hive_bitmap.errors import Undecodable

MAGIC = b"RCF\x01"
FIRST_BYTES = 16  # bytes of a decompressed key that certainly contain its first number


def units(source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
    """Yield the units that start from byte `start` to before `end`.

    `source` is the open file `path`. Raises Undecodable if the file is not an RCFile of version 1, has an unknown
    codec, or is damaged.
    """
    file = ByteStream(source, 0, source.size())
    if file.read(len(MAGIC)) != MAGIC:
        raise Undecodable("not an RCFile of version 1")
    codec = file.hadoop_text() if file.read(1)[0] else ""
    if codec not in _DECOMPRESS:
        raise Undecodable(f"an RCFile compressed by {codec}: known are {', '.join(filter(None, _DECOMPRESS))}")
    file.hadoop_metadata()
    mark = file.read(SYNC_BYTES)
    if start:
        file.seek(start)
    return in_batches(_groups(file, mark, end, _DECOMPRESS[codec]))


def _groups(file: ByteStream, mark: bytes, end: int, decompress: Callable[[bytes], bytes]) -> Iterator[tuple[int, int]]:
    def group(length: int) -> int:
        key, stored = file.big_int(), file.big_int()
        rows = _rows(file.read(stored), decompress)
        file.skip(length - key)
        return rows

    return between_marks(file, mark, end, group)


def _rows(key: bytes, decompress: Callable[[bytes], bytes]) -> int:
    with decoding("the key of a row group"):
        try:
            content = decompress(key)
        except zlib.error as error:
            raise Undecodable(f"key of a row group: {error}") from error
    return ByteStream(pa.BufferReader(content), 0, len(content)).hadoop_int()


def _zlib(data: bytes) -> bytes:
    return zlib.decompressobj().decompress(data, FIRST_BYTES)


def _gzip(data: bytes) -> bytes:
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, FIRST_BYTES)


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "org.apache.hadoop.io.compress.DefaultCodec": _zlib,
    "org.apache.hadoop.io.compress.DeflateCodec": _zlib,
    "org.apache.hadoop.io.compress.GzipCodec": _gzip,
}
