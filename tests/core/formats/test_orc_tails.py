"""What the end of an ORC file says of encryption and of its version; hive_bitmap opens no such file."""

from __future__ import annotations

import zlib
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import FORMATS
from hive_bitmap.core.formats.file_tails import (
    MOST_FOOTER_BYTES,
    ORC_ENCRYPTED,
    require_plain_orc,
)
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.orc_streams import require_sound_stripes
from hive_bitmap.errors import Undecodable
from tests.campaigns.footers import ORC_FOOTER, ORC_POSTSCRIPT, ORC_STRIPE, Node, protobuf, protobuf_bytes

TABLE = pa.table({"k": pa.array(range(20), pa.int32()), "s": [f"s{n % 3}" for n in range(20)]})
COLUMNS = [KeyColumn("k", "int"), KeyColumn("s", "string")]
ENCRYPTION = Node(10, 2, b"\x0a\x02\x08\x01")


def changed(
    tmp_path: Path,
    compression: str,
    *,
    footer: Node | None = None,
    stripe: Node | None = None,
    statistics: Node | None = None,
    **said: Node,
) -> str:
    """Write a file with one more field in its footer, stripe, statistics of `k` or postscript; return its path."""
    path = tmp_path / "a.orc"
    orc.write_table(TABLE, path, compression=compression)
    data = path.read_bytes()
    postscript = protobuf(data[-1 - data[-1] : -1], ORC_POSTSCRIPT)
    stored = next(node.value for node in postscript.children if node.number == 1)
    end = len(data) - 1 - data[-1]
    plain = data[end - stored : end] if compression == "uncompressed" else _inflated(data[end - stored : end])
    root = protobuf(plain, ORC_FOOTER)
    root.children += [footer] if footer else []
    if stripe:
        next(node for node in root.children if node.number == 3).children.append(stripe)
    if statistics:
        [node for node in root.children if node.number == 7][1].children.append(statistics)
    content = protobuf_bytes(root)
    content = content if compression == "uncompressed" else (len(content) << 1 | 1).to_bytes(3, "little") + content
    for node in postscript.children:
        if node.number == 1:
            node.value = len(content)
    postscript.children = [node for node in postscript.children if node.number != 4 or "version" not in said]
    postscript.children += said.values()
    tail = protobuf_bytes(postscript)
    path.write_bytes(data[: end - stored] + content + tail + bytes([len(tail)]))
    return f"file:{path}"


def _inflated(data: bytes) -> bytes:
    head = int.from_bytes(data[:3], "little")
    return data[3:] if head & 1 else zlib.decompress(data[3:], wbits=-15)


@pytest.mark.parametrize("compression", ["uncompressed", "zlib"])
@pytest.mark.parametrize(
    "change",
    [{"footer": ENCRYPTION}, {"footer": Node(10, 2, b"")}, {"stripe": Node(6, 0, 1)}, {"stripe": Node(7, 2, b"key")}],
)
def test_an_encrypted_file_is_not_opened(tmp_path: Path, compression: str, change: dict[str, Node]) -> None:
    path, format = changed(tmp_path, compression, **change), FORMATS["orc"]
    for use in (
        lambda: format.open_file(path),
        lambda: format.bytes_at_once(path, COLUMNS),
        lambda: list(format.read_rows(path, COLUMNS[:1], [(0, None)])),
    ):
        with pytest.raises(Undecodable) as raised:
            use()
        assert str(raised.value) == ORC_ENCRYPTED


def test_a_stripe_at_a_place_of_more_than_64_bits(tmp_path: Path) -> None:
    path, format = changed(tmp_path, "uncompressed", stripe=Node(1, 0, 2**64 - 1)), FORMATS["orc"]
    with pytest.raises(Undecodable, match=r"^the footer gives a block a place that no file has$"):
        format.blocks(format.open_file(path))


def test_a_stripe_of_more_rows_than_python_counts(tmp_path: Path) -> None:
    path, format = changed(tmp_path, "uncompressed", stripe=Node(5, 0, 2**63 + 5)), FORMATS["orc"]
    with pytest.raises(Undecodable, match=r"^its list of stripes cannot be decoded: "):
        format.blocks(format.open_file(path))


@pytest.mark.parametrize("field", [3, 4, 5, 6, 7, 8, 9, 12])
def test_statistics_of_another_type_are_not_read(tmp_path: Path, field: int) -> None:
    """C++ would take them for those of the column's type, and end the process."""
    path = changed(tmp_path, "zlib", statistics=Node(field, 2, b""))
    with pytest.raises(Undecodable, match=r"^its footer has statistics of another type for column 1$"):
        FORMATS["orc"].open_file(path)


def test_statistics_of_more_columns_than_there_are(tmp_path: Path) -> None:
    with pytest.raises(Undecodable, match=r"^its footer has statistics of 4 columns, not of 3$"):
        FORMATS["orc"].open_file(changed(tmp_path, "zlib", footer=Node(7, 2, b"")))


def test_statistics_of_all_types_are_those_that_writers_write(tmp_path: Path) -> None:
    when = datetime(2020, 5, 1, 3)
    columns = {
        "boolean": pa.array([True, None]),
        "int8": pa.array([1, None], pa.int8()),
        "int64": pa.array([1, None], pa.int64()),
        "float": pa.array([1.5, None], pa.float32()),
        "double": pa.array([1.5, None]),
        "text": pa.array(["a", None]),
        "bytes": pa.array([b"a", None]),
        "decimal": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "date": pa.array([when.date(), None]),
        "time": pa.array([when, None], pa.timestamp("us")),
        "instant": pa.array([when, None], pa.timestamp("us", "UTC")),
        "list": pa.array([[1], None], pa.list_(pa.int32())),
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array([{"a": 1, "b": [when]}, None]),
    }
    orc.write_table(pa.table(columns), tmp_path / "a")
    with pa.OSFile(str(tmp_path / "a")) as source:
        require_plain_orc(source)


def with_stream(tmp_path: Path, kind: int, column: int, /, **said: int) -> pa.BufferReader:
    """Return a file in whose only stripe the footer says something else of a stream."""
    orc.write_table(TABLE, tmp_path / "a.orc", compression="uncompressed")
    data = (tmp_path / "a.orc").read_bytes()
    postscript = {node.number: node.value for node in protobuf(data[-1 - data[-1] : -1], ORC_POSTSCRIPT).children}
    end = len(data) - 1 - data[-1]
    footer = protobuf(data[end - postscript[1] : end], ORC_FOOTER)
    [stripe] = [node for node in footer.children if node.number == 3]
    place = {node.number: node.value for node in stripe.children}
    start = place[1] + place[2] + place[3]
    root = protobuf(data[start : start + place[4]], ORC_STRIPE)
    [stream] = [
        node.children
        for node in root.children
        if node.number == 1 and [field.value for field in node.children[:2]] == [kind, column]
    ]
    for field, name in zip(stream, ("kind", "column", "length"), strict=True):
        field.value = said.get(name, field.value)
    content = protobuf_bytes(root)
    assert len(content) == place[4]
    return pa.BufferReader(data[:start] + content + data[start + place[4] :])


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ((1, 1), {"kind": 14}),  # which does not exist
        ((6, 1), {"kind": 14}),
        ((6, 1), {"kind": 0}),  # data among indexes
        ((1, 1), {"kind": 6}),
        ((1, 1), {"column": 0}),  # a struct has no data
        ((1, 1), {"column": 7}),  # which does not exist
        ((1, 1), {"kind": 5}),  # a part that an int has not
        ((2, 2), {"kind": 1}),  # twice
        ((2, 2), {"kind": 5}),
        ((1, 1), {"length": 1}),
        ((6, 2), {"length": 1}),
    ],
)
def test_streams_that_columns_cannot_have_are_not_read(
    tmp_path: Path, stream: tuple[int, int], said: dict[str, int]
) -> None:
    """Arrow and Spark differ in what they make of them, and in where they look for the streams behind them."""
    sound, foreign = with_stream(tmp_path, *stream), with_stream(tmp_path, *stream, **said)
    require_sound_stripes(sound, require_plain_orc(sound))
    with pytest.raises(Undecodable) as raised:
        require_sound_stripes(foreign, require_plain_orc(foreign))
    assert str(raised.value) == "the footer of stripe 0 lists streams that its columns cannot have"


def _zstd(data: bytes) -> bytes:
    with pa.BufferOutputStream() as sink:
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return bytes(sink.getvalue())


@pytest.mark.parametrize("codec", ["zlib", "zstd", "snappy", "lz4"])
def test_a_footer_that_grows_when_it_is_decompressed(codec: str) -> None:
    """A file of some kilobytes must not fill the memory of who opens it."""
    codecs = {
        "zlib": (1, lambda data: zlib.compress(data, wbits=-15)),
        "zstd": (5, _zstd),
        "snappy": (2, lambda data: pa.compress(data, codec="snappy", asbytes=True)),
        "lz4": (4, lambda data: pa.compress(data, codec="lz4_raw", asbytes=True)),
    }
    number, compress = codecs[codec]
    chunk = compress(b"\x12\x00" * (1 << 20))
    footer = ((len(chunk) << 1).to_bytes(3, "little") + chunk) * (1 + MOST_FOOTER_BYTES // (2 << 20))
    size = len(footer)
    length = bytes([0x08, *(size >> 7 * at & 127 | 128 for at in range(4)), size >> 28])
    tail = length + bytes([0x10, number])
    with pytest.raises(Undecodable, match="its footer takes more than 16,777,216 bytes"):
        require_plain_orc(pa.BufferReader(b"ORC" + footer + tail + bytes([len(tail)])))


def test_an_unknown_version_is_not_opened(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Arrow's C++ would print a warning each time."""
    path = changed(tmp_path, "uncompressed", version=Node(4, 2, bytes([7, 3])))
    with pytest.raises(Undecodable) as raised:
        FORMATS["orc"].open_file(path)
    assert str(raised.value) == "it has version 7.3 of the ORC format, which Arrow does not know"
    assert capfd.readouterr().err == ""
    FORMATS["orc"].open_file(changed(tmp_path, "zlib"))
    assert capfd.readouterr().err == ""


@given(
    st.sampled_from(["uncompressed", "zlib", "snappy", "lz4", "zstd"]),
    st.lists(st.text("ab ", max_size=40), min_size=1, max_size=40, unique=True),
    st.sampled_from(["0.11", "0.12"]),
)
@settings(max_examples=60)
def test_plain_files_are_plain(tmp_path: Path, compression: str, names: list[str], version: str) -> None:
    """The names, which are in the footer, are of many lengths and repeat themselves, for the sake of the codecs."""
    table = pa.table({f"{number}{name}": [1, 2, 3] for number, name in enumerate(names)})
    orc.write_table(table, tmp_path / "a", compression=compression, file_version=version)
    with pa.OSFile(str(tmp_path / "a")) as source:
        require_sound_stripes(source, require_plain_orc(source))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it does not end as an ORC file does"),
        (b"ORC", "it does not end as an ORC file does"),
        (b"no such format", "it does not end as an ORC file does"),
        (b"ORC" + b"\x82\xf4\x03\x03ORX" + bytes([7]), "it does not end as an ORC file does"),
        (b"ORC" + b"\x08\x7f" + bytes([2]), "its footer is damaged"),
        (b"ORC" + b"\x08\xff" + bytes([2]), "its footer is damaged"),
        (b"ORC\xff\xff\xff" + b"\x08\x03\x10\x01" + bytes([4]), "its footer is damaged"),
        (b"ORC\x08\0\0abcd" + b"\x08\x07\x10\x01" + bytes([4]), "its footer is damaged"),
        (b"ORC\x08\0\0abcd" + b"\x08\x07\x10\x02" + bytes([4]), "its footer is damaged"),
        (b"ORC\x08\0\0abcd" + b"\x08\x07\x10\x04" + bytes([4]), "its footer is damaged"),
        (b"ORC\x08\0\0abcd" + b"\x08\x07\x10\x05" + bytes([4]), "its footer is damaged"),
        (b"ORC\x08\0\0abcd" + b"\x08\x07\x10\x03" + bytes([4]), "its footer is compressed by codec 3 of ORC, which is"),
    ],
)
def test_what_is_no_tail(content: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as raised:
        require_plain_orc(pa.BufferReader(content))
    assert str(raised.value).startswith(reason)
