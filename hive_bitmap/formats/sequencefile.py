"""SequenceFile: a unit is what lies between two sync marks, known by the mark's first byte, or the end of the header.

A reader takes the records behind a mark that starts in its split, up to the next mark. Blocks of a block-compressed
file have a mark each, and tell how many records they hold; others are counted. The format, of which this is version 6:
https://hadoop.apache.org/docs/r3.5.0/api/org/apache/hadoop/io/SequenceFile.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.bytestream import SYNC_BYTES, ByteStream
from hive_bitmap.formats.units import Units, in_batches

MAGIC = b"SEQ\x06"
ESCAPE = -1  # in place of the length of a record: a mark follows
COMPRESSED_PARTS = 4  # of a block: lengths of keys, keys, lengths of values, values


def units(source: pa.NativeFile, path: str, start: int, end: int) -> Iterator[Units]:
    """The units that start in the bytes from `start` to `end`."""
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
    """Their lengths are chained, so they can only be walked one by one."""

    def record(length: int) -> int:
        file.big_int()  # the part of the key
        file.skip(length)
        return 1

    return between_marks(file, mark, end, record)


def between_marks(file: ByteStream, mark: bytes, end: int, rows_of: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    """Where the units that start before `end` lie, and their rows; `rows_of` passes over what follows a length."""
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
    """Pass over a sync mark behind its escape; raises Undecodable where there is none."""
    if file.read(SYNC_BYTES) != mark:
        raise Undecodable(f"the sync mark before byte {file.position} is damaged")
