"""Find the units of a SequenceFile.

A unit has the records after one sync marker. Consecutive units form a block of the index (`formats/blocks`). A unit is
identified by the position of the marker's escape, which is the number -1 before the marker. The records between the
header and the first marker are a unit too, identified by the end of the header. A reader reads the records after every
marker that starts in the reader's split, up to the next marker. In a block-compressed file, each compressed block has a
marker and states its number of records. In other files, records are counted. The module reads version 6 of the format:
https://hadoop.apache.org/docs/r3.5.0/api/org/apache/hadoop/io/SequenceFile.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from hive_bitmap.core.formats.blocks import Units, in_batches
from hive_bitmap.core.formats.bytestream import SYNC_BYTES, ByteStream
from hive_bitmap.errors import Undecodable

MAGIC = b"SEQ\x06"
ESCAPE = -1  # replaces the length of a record if a sync marker follows
COMPRESSED_PARTS = 4  # parts of a block: lengths of keys, keys, lengths of values, values


def units(source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
    """Yield the units that start from byte `start` to before `end`, in batches.

    `source` is the open file `path`. Raises Undecodable if the file is not a SequenceFile of version 6, or is damaged.
    """
    file = ByteStream(source, 0, source.size())
    if file.read(len(MAGIC)) != MAGIC:
        raise Undecodable("not a SequenceFile of version 6")
    file.hadoop_text(), file.hadoop_text()  # the classes of keys and values
    compressed, by_blocks = file.read(2)
    if compressed:
        file.hadoop_text()
    file.hadoop_metadata()
    mark = file.read(SYNC_BYTES)
    if start:
        file.seek(start)
    return in_batches(_blocks(file, mark, end) if by_blocks else _records(file, mark, end))


def _blocks(file: ByteStream, mark: bytes, end: int) -> Iterator[tuple[int, int]]:
    while not file.at_end() and file.position < end:
        position = file.position
        if file.big_int() != ESCAPE:
            raise Undecodable(f"no block starts at byte {position}")
        _pass_mark(file, mark)
        rows = file.hadoop_int()
        for _ in range(COMPRESSED_PARTS):
            file.skip(file.hadoop_int())
        yield position, rows


def _records(file: ByteStream, mark: bytes, end: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and the number of rows of each unit.

    Records are counted one by one. `mark` is the sync marker of the file. Only units that start before `end` are
    yielded.
    """

    def record(length: int) -> int:
        file.big_int()  # length of the key, which is part of the record
        file.skip(length)
        return 1

    return between_marks(file, mark, end, record)


def between_marks(file: ByteStream, mark: bytes, end: int, rows_of: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    """Yield the offset and row count of each unit that has rows.

    `mark` is the sync marker of the file. Only units that start before `end` are yielded. `rows_of` is called for each
    record or row group, with the length that was read from `file`. `rows_of` skips the record or row group in `file`,
    and returns its number of rows.
    """
    position, rows = file.position, 0
    while not file.at_end():
        here = file.position
        length = file.big_int()
        if length == ESCAPE:
            if rows:
                yield position, rows
            if here >= end:
                return
            _pass_mark(file, mark)
            position, rows = here, 0
        else:
            rows += rows_of(length)
    if rows:
        yield position, rows


def _pass_mark(file: ByteStream, mark: bytes) -> None:
    """Skip the sync marker after its escape; raise Undecodable if it is damaged."""
    if file.read(SYNC_BYTES) != mark:
        raise Undecodable(f"the sync mark before byte {file.position} is damaged")
