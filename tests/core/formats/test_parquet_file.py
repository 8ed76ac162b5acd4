"""A column of the table in a Parquet file: found by its name or its id, or declined, and what a footer tells of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.parquet_file import FIELD_ID, ParquetHandle, find, open_file
from hive_bitmap.errors import Undecodable

INT, TEXTS = pa.int32(), pa.list_(pa.string())


def opened(folder: Path, *fields: pa.Field, **options: object) -> ParquetHandle:
    """A file of these columns and one row of NULLs."""
    schema = pa.schema(fields)
    arrays = [pa.nulls(1, field.type) for field in schema]
    pq.write_table(pa.table(arrays, schema=schema), folder / "f", **options)
    return open_file(f"file:{folder}/f")


def with_id(name: str, number: int, type: pa.DataType = INT) -> pa.Field:
    return pa.field(name, type, metadata={FIELD_ID: str(number)})


def found(handle: ParquetHandle, column: KeyColumn) -> str | None:
    result = find(handle, column)
    return None if result is None else result[0]


@pytest.mark.parametrize(
    ("fields", "column", "name"),
    [
        ([("K", INT)], KeyColumn("k", "int"), "K"),
        ([("k", INT)], KeyColumn("K", "int"), "k"),
        ([("a b.c", INT)], KeyColumn("A b.c", "int"), "a b.c"),
        ([("other", INT)], KeyColumn("k", "int"), None),
        ([], KeyColumn("k", "int"), None),
        ([("col-7", INT), ("k", INT)], KeyColumn("k", "int", file_name="col-7"), "col-7"),  # as Delta maps names
        ([("k", INT)], KeyColumn("k", "int", file_name="col-7"), None),
    ],
)
def test_a_column_is_found_by_its_name(
    tmp_path: Path, fields: list[tuple[str, pa.DataType]], column: KeyColumn, name: str | None
) -> None:
    assert found(opened(tmp_path, *map(pa.field, *zip(*fields, strict=True)) if fields else ()), column) == name


def test_a_column_with_an_id_is_found_by_that_alone(tmp_path: Path) -> None:
    handle = opened(tmp_path, with_id("k", 2), with_id("renamed", 1))
    assert found(handle, KeyColumn("k", "int", field_id=1)) == "renamed"
    assert found(handle, KeyColumn("k", "int", field_id=2)) == "k"
    assert found(handle, KeyColumn("k", "int", field_id=3)) is None


@pytest.mark.parametrize(
    ("fields", "column", "said"),
    [
        ([pa.field("k", INT), pa.field("K", INT)], KeyColumn("k", "int"), "is ambiguous: the file has k, K"),
        ([pa.field("k", TEXTS)], KeyColumn("k", "string"), "is nested in the file"),
        ([pa.field("k", pa.struct([("k", INT)]))], KeyColumn("k", "int"), "is nested in the file"),
        ([pa.field("k", pa.map_(INT, INT))], KeyColumn("k", "int"), "is nested in the file"),
        ([with_id("a", 1), with_id("b", 1)], KeyColumn("k", "int", field_id=1), "is ambiguous: the file has a, b"),
        (
            [with_id("a", 1), pa.field("k", INT)],
            KeyColumn("k", "int", field_id=1),
            "has an id in the table, and columns of the file have none",
        ),
    ],
)
def test_a_column_that_names_do_not_tell_is_declined(
    tmp_path: Path, fields: list[pa.Field], column: KeyColumn, said: str
) -> None:
    with pytest.raises(Undecodable) as raised:
        find(opened(tmp_path, *fields), column)
    assert str(raised.value) == f"column 'k' {said}"


def test_what_a_footer_tells(tmp_path: Path) -> None:
    handle = opened(
        tmp_path,
        pa.field("a", pa.dictionary(pa.int32(), pa.string())),
        pa.field("b", pa.struct([("c", INT)])),
        with_id("d", 7),
        pa.field("D", TEXTS),
    )
    assert handle.names == ["a", "b", "d", "D"]
    assert handle.dictionaries == {"a"}
    assert handle.fields == {"a": ["a"], "b": ["b"], "d": ["d", "D"]}
    assert handle.leaves == {"a": 0, "d": 2}
    assert handle.field_ids == {"a": None, "b": None, "d": 7, "D": None}


@pytest.mark.parametrize(("encoding", "delta"), [("DELTA_BYTE_ARRAY", True), ("PLAIN", False)])
def test_pages_of_which_arrow_makes_no_dictionary(tmp_path: Path, encoding: str, delta: bool) -> None:
    table = pa.table({"s": ["a", "b"]})
    pq.write_table(table, tmp_path / "f", use_dictionary=False, column_encoding={"s": encoding}, row_group_size=1)
    handle = open_file(f"file:{tmp_path}/f")
    assert handle.is_delta("s", [0, 1]) is delta
    assert not handle.is_delta("s", [])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"no such format at all"])
def test_a_file_without_a_footer(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(Undecodable):
        open_file(f"file:{tmp_path}/f")


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(f"file:{tmp_path}/f")


def test_the_year_9999_in_old_timestamps(tmp_path: Path) -> None:
    import datetime

    late = datetime.datetime(9999, 12, 31, 23, 59, 59)
    table = pa.table({"at": pa.array([late], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "f", use_deprecated_int96_timestamps=True)
    assert open_file(f"file:{tmp_path}/f").reader().read()["at"].to_pylist() == [late]
