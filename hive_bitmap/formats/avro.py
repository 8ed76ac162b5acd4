"""Avro: a unit is a block of the file, known by the sync mark before it.

The format: https://avro.apache.org/docs/1.11.1/specification/#object-container-files.

A reader takes the blocks whose mark starts in its split: `sync` and `pastSync` of
https://github.com/apache/avro/blob/release-1.11.1/lang/java/avro/src/main/java/org/apache/avro/file/DataFileReader.java.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.bytestream import SYNC_BYTES, ByteStream
from hive_bitmap.formats.units import Units, in_batches

MAGIC = b"Obj\x01"


def units(source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
    """The blocks whose marks lie in the bytes from `start` to `end`."""
    return in_batches(_blocks(source, start, end))


def _blocks(source: pa.NativeFile, start: int, end: int) -> Iterator[tuple[int, int]]:
    file = ByteStream(source, 0, source.size())
    if file.read(len(MAGIC)) != MAGIC:
        raise Undecodable("not an Avro file")
    while pairs := file.avro_long():
        if pairs < 0:
            file.avro_long()  # the bytes that they take
        for _ in range(2 * abs(pairs)):
            file.avro_bytes()
    mark = file.read(SYNC_BYTES)
    if start:
        file.seek(start + SYNC_BYTES)
    while not file.at_end() and file.position - SYNC_BYTES < end:
        position = file.position
        rows, size = file.avro_long(), file.avro_long()
        file.skip(size)
        if rows < 0 or file.read(SYNC_BYTES) != mark:
            raise Undecodable(f"the Avro block at byte {position} is damaged")
        yield position - SYNC_BYTES, rows
