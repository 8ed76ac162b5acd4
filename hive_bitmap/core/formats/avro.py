"""Find the units of an Avro file.

A unit is a data block of the file. A data block is identified by the offset of the sync marker before the data block.
The format: https://avro.apache.org/docs/1.11.1/specification/#object-container-files.

If the sync marker before a data block starts in a split, the reader of this split reads the data block, see `sync` and
`pastSync` of
https://github.com/apache/avro/blob/release-1.11.1/lang/java/avro/src/main/java/org/apache/avro/file/DataFileReader.java.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hive_bitmap.core.formats.blocks import Units, in_batches
from hive_bitmap.core.formats.bytestream import SYNC_BYTES, ByteStream
from hive_bitmap.errors import Undecodable

MAGIC = b"Obj\x01"


def units(source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
    """Yield the data blocks from byte `start` to before `end`, in batches.

    The offset of a data block is the offset of the sync marker before it. `start` is 0 or the offset of a data block.
    Raises Undecodable if the file is not an Avro file or is damaged.
    """
    return in_batches(_blocks(source, start, end))


def _blocks(source: pa.NativeFile, start: int, end: int) -> Iterator[tuple[int, int]]:
    file = ByteStream(source, 0, source.size())
    if file.read(len(MAGIC)) != MAGIC:
        raise Undecodable("not an Avro file")
    while pairs := file.avro_long():
        if pairs < 0:
            file.avro_long()  # a negative count is followed by the size of the map block in bytes
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
