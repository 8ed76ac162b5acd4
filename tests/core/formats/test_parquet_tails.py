"""What the bytes of a Parquet footer say of encryption; hive_bitmap opens no such file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import FORMATS, parquet, parquet_file
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.parquet_file import parquet_footer_length, require_plain_parquet
from hive_bitmap.errors import Undecodable
from tests.campaigns.footers import BINARY, LIST, STRUCT, Node, thrift, thrift_bytes
from tests.core.formats import encrypted

TABLE = pa.table({"k": pa.array(range(20), pa.int32()), "s": [f"s{n % 3}" for n in range(20)]})
COLUMNS = [KeyColumn("k", "int"), KeyColumn("s", "string")]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("footer", parquet_file.PARQUET_FOOTER_ENCRYPTED),
        ("column", parquet_file.PARQUET_COLUMN_ENCRYPTED),
        ("uniform", parquet_file.PARQUET_FOOTER_ENCRYPTED),
    ],
)
def test_an_encrypted_file_is_not_opened(tmp_path: Path, kind: str, reason: str) -> None:
    path = f"file:{tmp_path}/a.parquet"
    encrypted.write(tmp_path / "a.parquet", TABLE, kind)
    format = FORMATS["parquet"]
    for use in (
        lambda: format.open_file(path),
        lambda: format.bytes_at_once(path, COLUMNS) and list(format.read_rows(path, COLUMNS[:1], [(0, None)])),
        lambda: list(format.read_rows(path, COLUMNS[:1], [(0, None)])),
    ):
        with pytest.raises(Undecodable) as raised:
            use()
        assert str(raised.value) == reason


def footer_with(
    tmp_path: Path, *, column: Node | None = None, file: Node | None = None, leave_out: int = 0, chunks: int = 2
) -> str:
    """Write a plain file whose footer, or its first column, has one more field, or one less; return its path.

    Its row group has so many column chunks.
    """
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path)
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    root = thrift(data[-8 - size : -8])
    [groups] = [node for node in root.children if node.number == 4]
    chunk = groups.children[0].children[0].children[0]
    chunk.children = [node for node in chunk.children if node.number != leave_out] + ([column] if column else [])
    columns = groups.children[0].children[0].children
    del columns[chunks:]
    root.children += [file] if file else []
    footer = thrift_bytes(root)
    path.write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return f"file:{path}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"file": Node(8, STRUCT, children=[Node(1, STRUCT)])}, "some column is encrypted"),
        ({"file": Node(9, BINARY, b"key")}, "some column is encrypted"),
        ({"column": Node(8, STRUCT, children=[Node(1, STRUCT)])}, "some column is encrypted"),
        ({"column": Node(9, BINARY, b"?")}, "some column is encrypted"),
        ({"leave_out": 3}, "its footer does not describe all columns"),
        ({"column": Node(7, LIST)}, ""),  # not a field of that number in any version; a reader skips it
    ],
)
def test_each_field_that_tells_of_encryption(tmp_path: Path, change: dict[str, Node], reason: str) -> None:
    path = footer_with(tmp_path, **change)  # type: ignore[arg-type]
    with pa.OSFile(path[5:]) as source:
        if not reason:
            require_plain_parquet(source)
            return
        with pytest.raises(Undecodable, match=f"^{reason}"):
            require_plain_parquet(source)
    if "leave_out" not in change:
        with pytest.raises(Undecodable, match=f"^{reason}"):
            parquet.rehearse(parquet.open_file(path), COLUMNS)


@given(st.lists(st.sampled_from(["int", "text", "list", "struct", "bool", "null"]), min_size=1, max_size=5), st.data())
@settings(max_examples=30)
def test_plain_files_are_plain(tmp_path: Path, kinds: list[str], data: st.DataObject) -> None:
    values = {
        "int": pa.array([1, None, 3]),
        "text": pa.array(["a", "b" * 300, None]),
        "list": pa.array([[1, 2], [], None]),
        "struct": pa.array([{"a": {"b": [1]}}, None, {"a": None}]),
        "bool": pa.array([True, None, False]),
        "null": pa.nulls(3),
    }
    table = pa.table([values[kind] for kind in kinds], names=[f"{kind}{n}" for n, kind in enumerate(kinds)])
    options = {
        "row_group_size": data.draw(st.integers(1, 3)),
        "write_page_index": data.draw(st.booleans()),
        "store_schema": data.draw(st.booleans()),
        "use_dictionary": data.draw(st.booleans()),
        "version": data.draw(st.sampled_from(["1.0", "2.6"])),
    }
    pq.write_table(
        table.replace_schema_metadata({"note": "n" * data.draw(st.integers(0, 200))}), tmp_path / "a", **options
    )
    with pa.OSFile(str(tmp_path / "a")) as source:
        require_plain_parquet(source)
        assert parquet_footer_length(source) == pq.read_metadata(source).serialized_size


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it does not end as a Parquet file does"),
        (b"PAR1", "it does not end as a Parquet file does"),
        (b"no such format", "it does not end as a Parquet file does"),
        (b"PAR1" + b"\xff" * 4 + b"PAR1", "its footer has 4,294,967,295 bytes, more than the file"),
        (b"PAR1\0\0\0\0PAR1", "its footer is damaged"),
        (b"PAR1" + b"\x1c" * 9000 + (9000).to_bytes(4, "little") + b"PAR1", "its footer is damaged"),
        (b"PAR1" + b"\x16" + b"\xff" * 99 + (100).to_bytes(4, "little") + b"PAR1", "its footer is damaged"),
        (b"PAR1" + b"\x1d\0" + (2).to_bytes(4, "little") + b"PAR1", "its footer is damaged"),
    ],
)
def test_what_is_no_footer(content: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as raised:
        require_plain_parquet(pa.BufferReader(content))
    assert str(raised.value) == reason


def test_a_row_group_of_fewer_columns_than_the_schema(tmp_path: Path) -> None:
    format = FORMATS["parquet"]
    handle = format.open_file(footer_with(tmp_path, chunks=1))
    for use in (lambda: format.rehearse(handle, COLUMNS), lambda: format.column_bytes(handle, COLUMNS)):
        with pytest.raises(Undecodable, match="cannot be decoded: 1 out of bounds"):
            use()


@pytest.mark.parametrize(("column", "field"), [(1, 3), (2, 3), (2, 1)])
def test_size_statistics_that_do_not_fit_the_schema(tmp_path: Path, column: int, field: int) -> None:
    """The schema says that a column is required, or no text: Arrow's C++ would end the process."""
    pq.write_table(TABLE, tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    root = thrift(data[-8 - size : -8])
    [schema] = [node for node in root.children if node.number == 2]
    [node] = [node for node in schema.children[column].children if node.number == field]
    node.value = 0
    footer = thrift_bytes(root)
    (tmp_path / "a.parquet").write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(Undecodable, match=r"^its size statistics do not fit its schema$"):
        parquet.rehearse(parquet.open_file(f"file:{tmp_path}/a.parquet"), COLUMNS)
