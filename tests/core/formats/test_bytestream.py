"""Values in container files are read as Hadoop and Avro write them, and nothing beyond the end of what is read."""

from __future__ import annotations

import io
import struct

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hive_bitmap.core.formats import bytestream
from hive_bitmap.core.formats.bytestream import ByteStream
from hive_bitmap.errors import Undecodable

LONGS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, -1, 127, 128, -112, -113, -120, 255, 256, 2**31, 2**63 - 1, -(2**63)]),
)


def hadoop_long(value: int) -> bytes:
    """Write a number as `WritableUtils.writeVLong` of Hadoop does."""
    if -112 <= value <= 127:
        return struct.pack("b", value)
    length, rest = -112, value
    if value < 0:
        rest, length = ~value, -120
    size = (rest.bit_length() + 7) // 8
    return struct.pack("b", length - size) + rest.to_bytes(size, "big")


def avro_long(value: int) -> bytes:
    """Write a number as Avro's specification says: zigzag, seven bits a byte, the lowest first."""
    rest, found = (value << 1) ^ (value >> 63), b""
    rest &= 2**64 - 1
    while rest > 0x7F:
        found += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return found + bytes([rest])


VALUES = st.one_of(
    st.tuples(st.just("hadoop_int"), LONGS),
    st.tuples(st.just("avro_long"), LONGS),
    st.tuples(st.just("big_int"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("hadoop_text"), st.text(max_size=9)),
    st.tuples(st.just("avro_bytes"), st.binary(max_size=9)),
    st.tuples(st.just("hadoop_metadata"), st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)),
)


def written(kind: str, value: object) -> bytes:
    def text(one: str) -> bytes:
        return hadoop_long(len(one.encode())) + one.encode()

    match kind, value:
        case "hadoop_int", int():
            return hadoop_long(value)
        case "avro_long", int():
            return avro_long(value)
        case "big_int", int():
            return struct.pack(">i", value)
        case "hadoop_text", str():
            return text(value)
        case "avro_bytes", bytes():
            return avro_long(len(value)) + value
        case "hadoop_metadata", dict():
            return struct.pack(">i", len(value)) + b"".join(text(one) for pair in value.items() for one in pair)
    raise AssertionError(kind)


@given(st.lists(VALUES, max_size=8), st.integers(1, 12), st.integers(0, 5))
def test_values_are_read_back_whatever_the_window(values: list[tuple[str, object]], window: int, start: int) -> None:
    parts = [written(kind, value) for kind, value in values]
    data = bytes(start) + b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bytestream, "WINDOW_BYTES", window)
        file = ByteStream(pa.BufferReader(data + b"beyond"), start, len(data))
        for (kind, value), part in zip(values, parts, strict=True):
            before = file.position
            assert not file.at_end()
            assert getattr(file, kind)() == (None if kind == "hadoop_metadata" else value)
            assert file.position == before + len(part)
        assert file.at_end()
        with pytest.raises(Undecodable, match=f"the file is damaged or cut off at byte {len(data)}$"):
            file.read(1)


@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_a_value_that_is_cut_off_is_told_with_its_place(values: list[tuple[str, object]], data: st.DataObject) -> None:
    whole = b"".join(written(kind, value) for kind, value in values)
    end = data.draw(st.integers(0, len(whole) - 1))
    for source in (whole, whole[:end]):  # the end of what is read, or of the file itself
        file = ByteStream(pa.BufferReader(source), 0, end)
        with pytest.raises(Undecodable, match=r"the file is damaged or cut off at byte [0-9]+$"):
            for kind, _ in values:
                getattr(file, kind)()


def test_a_file_that_became_shorter_is_told() -> None:
    file = ByteStream(pa.BufferReader(b"abc"), 0, 9)
    assert file.read(2) == b"ab"
    with pytest.raises(Undecodable, match="the file is cut off at byte 2"):
        file.read(4)


ACTS = st.one_of(
    st.tuples(st.just("read"), st.integers(-3, 9)),
    st.tuples(st.just("skip"), st.integers(-3, 9)),
    st.tuples(st.just("seek"), st.integers(0, 20)),
)


@given(st.lists(ACTS, max_size=12), st.integers(1, 7))
@example([("read", 5), ("read", -3)], 7)
def test_reading_and_skipping_go_forward_alone(acts: list[tuple[str, int]], window: int) -> None:
    data = bytes(range(20))
    oracle = io.BytesIO(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bytestream, "WINDOW_BYTES", window)
        file = ByteStream(pa.BufferReader(data), 0, len(data))
        for act, count in acts:
            at = oracle.tell()
            if act != "seek" and (count < 0 or at + count > len(data)):
                with pytest.raises(Undecodable, match=f"cut off at byte {at}"):
                    getattr(file, act)(count)
            elif act == "read":
                assert file.read(count) == oracle.read(count)
            else:
                getattr(file, act)(count)
                oracle.seek(count if act == "seek" else at + count)
            assert file.position == oracle.tell() and file.at_end() == (oracle.tell() >= len(data))


@pytest.mark.parametrize("size", [10, 11, 100])
def test_a_number_of_avro_has_ten_bytes_at_most(size: int) -> None:
    file = ByteStream(pa.BufferReader(b"\xff" * size), 0, size)
    with pytest.raises(Undecodable, match="no valid number at byte 10"):
        file.avro_long()


@pytest.mark.parametrize(("kind", "length"), [("hadoop_text", hadoop_long(-3)), ("avro_bytes", avro_long(-3))])
def test_a_negative_length_does_not_lead_back(kind: str, length: bytes) -> None:
    """Whoever wrote it could else have a reader go round for ever."""
    file = ByteStream(pa.BufferReader(b"abcdef" + length), 0, 6 + len(length))
    file.read(6)
    with pytest.raises(Undecodable, match=f"the file is damaged or cut off at byte {6 + len(length)}"):
        getattr(file, kind)()
