"""RCFile: a unit is what lies between two sync marks, known by the mark's first byte, or the end of the header.

Most row groups have a mark of their own; small ones share it. A reader takes the row groups behind a mark that starts
in its split. How many rows a group holds is the first number of its key, which may be compressed. The format, of which
this is version 1, is the comment before the class in
https://github.com/apache/hive/blob/rel/release-2.3.9/ql/src/java/org/apache/hadoop/hive/ql/io/RCFile.java.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.bytestream import SYNC_BYTES, ByteStream
from hive_bitmap.formats.key_values import decoding
from hive_bitmap.formats.sequencefile import between_marks
from hive_bitmap.formats.units import Units, in_batches

MAGIC = b"RCF\x01"
FIRST_BYTES = 16  # of a decompressed key hold its first number


def units(source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
    """The units that start in the bytes from `start` to `end`."""
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
    with decoding("key of a row group"):
        try:
            found = decompress(key)
        except zlib.error as error:
            raise Undecodable(f"key of a row group: {error}") from error
    return ByteStream(pa.BufferReader(found), 0, len(found)).hadoop_int()


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
