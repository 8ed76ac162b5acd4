"""The units of SequenceFiles that are written here, byte by byte as the format is described; a list is the oracle."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import sequencefile
from hive_bitmap.errors import Undecodable
from tests.core.formats.test_bytestream import hadoop_long

MARK = bytes(range(100, 116))
SYNC = struct.pack(">i", -1) + MARK


def text(value: str) -> bytes:
    return hadoop_long(len(value.encode())) + value.encode()


def header(*, compressed: bool, by_blocks: bool) -> bytes:
    classes = text("org.apache.hadoop.io.BytesWritable") + text("org.apache.hadoop.io.Text")
    codec = text("org.apache.hadoop.io.compress.DefaultCodec") if compressed else b""
    metadata = struct.pack(">i", 1) + text("écrit") + text("par")
    return b"SEQ\x06" + classes + bytes([compressed, by_blocks]) + codec + metadata + MARK


@dataclass
class File:
    """A file and its units: offset and number of rows of each."""

    content: bytes
    units: list[tuple[int, int]] = field(default_factory=list)

    def read(self, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        source = pa.PythonFile(pa.BufferReader(self.content), mode="r")
        found = sequencefile.units(source, "f", start, len(self.content) if end is None else end)
        return [pair for batch in found for pair in zip(batch.offset.tolist(), batch.rows.tolist(), strict=True)]


def of_records(pieces: list[tuple[bytes, bytes] | None], *, compressed: bool = False) -> File:
    """A file of these records (key and value); None is a sync marker."""
    file = File(header(compressed=compressed, by_blocks=False))
    offset, rows = len(file.content), 0
    for piece in pieces:
        if piece is None:
            file.units += [(offset, rows)] if rows else []
            offset, rows = len(file.content), 0
            file.content += SYNC
        else:
            key, value = piece
            file.content += struct.pack(">ii", len(key) + len(value), len(key)) + key + value
            rows += 1
    file.units += [(offset, rows)] if rows else []
    return file


def of_blocks(blocks: list[tuple[int, list[bytes]]]) -> File:
    """A block-compressed file: the number of records, and the four parts of each block."""
    file = File(header(compressed=True, by_blocks=True))
    for rows, parts in blocks:
        file.units.append((len(file.content), rows))
        file.content += SYNC + hadoop_long(rows) + b"".join(hadoop_long(len(part)) + part for part in parts)
    return file


RECORD = st.tuples(st.binary(max_size=4), st.sampled_from([b"", b"v", MARK, SYNC, b"x" * 200]))
FILES = st.one_of(
    st.builds(of_records, st.lists(st.none() | RECORD, max_size=12), compressed=st.booleans()),
    st.builds(
        of_blocks,
        st.lists(
            st.tuples(st.integers(0, 300), st.lists(st.sampled_from([b"", SYNC, b"x" * 200]), min_size=4, max_size=4)),
            max_size=6,
        ),
    ),
)


@given(FILES, st.data())
@example(of_records([None, None, (b"k", b"v"), None]), None)
@settings(max_examples=200)
def test_a_unit_is_what_follows_one_mark(file: File, data: st.DataObject | None) -> None:
    assert file.read() == file.units
    if data is None or not file.units:
        return
    start = data.draw(st.sampled_from([0, *(offset for offset, _ in file.units)]))
    least = max(start, file.content.index(MARK) + len(MARK)) + 1  # what follows the header is read with it
    ends = [at + more for at, _ in file.units for more in (0, 1)]
    end = data.draw(st.integers(least, max(least, len(file.content))) | st.sampled_from(ends))
    assert file.read(start, max(end, least)) == [unit for unit in file.units if start <= unit[0] < max(end, least)]


@given(FILES.filter(lambda file: file.units), st.data())
@settings(max_examples=150)
def test_a_file_that_is_cut_off_is_undecodable_or_ends_there(file: File, data: st.DataObject) -> None:
    """A record or block that is cut is damage; what is cut between them is a shorter file."""
    cut = File(file.content[: data.draw(st.integers(0, len(file.content) - 1))])
    try:
        found = cut.read()
    except Undecodable:
        return
    whole = dict(file.units)
    assert all(whole[offset] >= rows for offset, rows in found)
    assert sum(rows for _, rows in found) <= sum(whole.values())
    assert [offset for offset, _ in found] == [offset for offset, _ in file.units][: len(found)]


def test_damage_is_told() -> None:
    records, blocks = of_records([None, (b"k", b"v"), None]), of_blocks([(3, [b"x"] * 4)] * 2)
    for file in (records, blocks):
        at = file.content.rindex(MARK)
        with pytest.raises(Undecodable, match=f"sync mark before byte {at + len(MARK)} is damaged"):
            File(file.content[:at] + b"?" + file.content[at + 1 :]).read()
    first = blocks.units[0][0]
    with pytest.raises(Undecodable, match=f"no block starts at byte {first}"):
        File(blocks.content[:first] + struct.pack(">i", 7) + blocks.content[first + 4 :]).read()
    first = records.units[0][0] + len(SYNC)
    with pytest.raises(Undecodable, match="damaged or cut off"):
        File(records.content[:first] + struct.pack(">i", -2) + records.content[first + 4 :]).read()
    with pytest.raises(Undecodable, match="not a SequenceFile of version 6"):
        File(b"SEQ\x05" + records.content[4:]).read()
