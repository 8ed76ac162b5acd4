"""Nested columns of Parquet files: random types and values against pyarrow, and the layouts that are refused."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.formats import parquet, parquet_nested
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_of
from hive_bitmap.core.nested_types import (
    ArrayOf,
    MapOf,
    NestedType,
    StructOf,
    of_json,
    parse,
    text,
    why_spark_only,
)
from hive_bitmap.errors import Undecodable
from tests.core.formats.nested_data import evolved, random_type, random_value


def as_type(value: Any, stored: NestedType, type: NestedType) -> Any:
    """A value of a file in the type of the table."""
    if value is None:
        return None
    match type, stored:
        case ArrayOf(element), ArrayOf(inner):
            return [as_type(item, inner, element) for item in value]
        case MapOf(_, element), MapOf(_, inner):
            return [(key, as_type(item, inner, element)) for key, item in value]
        case StructOf(fields), StructOf(others):
            places = {name.lower(): (name, inner) for name, inner in others}
            return {
                name: as_type(value[place[0]], place[1], inner) if (place := places.get(name.lower())) else None
                for name, inner in fields
            }
    return value


@pytest.mark.random
def test_random_types_and_values(tmp_path: Path, seeds: list[int]) -> None:
    read, refused = 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        type = random_type(rng)
        stored = evolved(rng, type) if rng.random() < 0.6 else type
        values = [random_value(rng, stored) for _ in range(rng.choice([1, 30, 200]))]
        table = pa.table({"id": range(len(values)), "V": pa.array(values, arrow_of(stored))})
        path = tmp_path / f"f{seed}.parquet"
        pq.write_table(
            table,
            path,
            row_group_size=50,
            data_page_size=rng.choice([64, 1 << 20]),
            use_dictionary=rng.random() < 0.5,
            use_compliant_nested_type=rng.random() < 0.7,
            store_schema=rng.random() < 0.5,
        )
        column = KeyColumn("v", text(type))
        handle = parquet.open_file(f"file:{path}")
        marks = parquet.nested_marks(handle, [column])
        if why_spark_only("v", type, marks):
            with pytest.raises(Undecodable):
                parquet_nested.locate(handle, column)
            refused += 1
            continue
        read += 1
        wanted = [as_type(value, stored, type) for value in values]
        blocks = parquet.blocks(handle).rows.tolist()
        some = [(block, np.arange(rng.randint(0, 2), rows, 3)) for block, rows in enumerate(blocks)]
        kept = [first * 50 + row for first, rows in some for row in rows.tolist()]
        for selection, rows in (([(block, None) for block in range(len(blocks))], range(len(values))), (some, kept)):
            batches = list(parquet.read_rows(f"file:{path}", [column, KeyColumn("id", "bigint")], selection))
            found = pa.Table.from_batches(batches, schema=pa.schema([("v", arrow_of(type)), ("id", pa.int64())]))
            found.validate(full=True)
            assert found["id"].to_pylist() == list(rows), seed
            assert found["v"].to_pylist() == pa.array([wanted[row] for row in rows], arrow_of(type)).to_pylist(), seed
        assert parquet.read_together([(f"file:{path}", some)], [column]) is None
    assert read >= refused


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> list[int]:
    first, more = (request.config.getoption(name, 0) or 0 for name in ("--seed", "--long"))
    return list(range(first, first + 60 + 500 * more))


def marks_of(path: Path, type: str) -> list[str]:
    return parquet.nested_marks(parquet.open_file(f"file:{path}"), [KeyColumn("v", type)])


def write(path: Path, values: Any, **options: Any) -> Path:
    pq.write_table(pa.table({"v": values}), path, **options)
    return path


LISTS = pa.array([[1, None], [], None], pa.list_(pa.int32()))
MAPS = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))


@pytest.mark.parametrize(
    ("values", "type", "before", "after"),
    [
        (LISTS, "array<int>", b"element", b"array_x"),
        (LISTS, "array<int>", b"list", b"bags"),
        (MAPS, "map<string,int>", b"key_value", b"map_value"),
        (MAPS, "map<string,int>", b"\x05value", b"\x05valuf"),
    ],
)
def test_other_layouts_are_left_to_spark(
    tmp_path: Path, values: pa.Array, type: str, before: bytes, after: bytes
) -> None:
    path = write(tmp_path / "f", values, store_schema=False)
    assert marks_of(path, type) == ["v"]
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))
    assert any(mark.endswith("!") for mark in marks_of(path, type)) or not marks_of(path, type)


@pytest.mark.parametrize(
    ("values", "type", "marks"),
    [
        (pa.array([{"a": 1}]), "struct<a:bigint,b:int>", ["v", "v.b?"]),
        (pa.array([{"a": 1}]), "struct<a:int>", ["v", "v.a!"]),
        (pa.array([{"a": 1}]), "struct<a:array<bigint>>", ["v", "v.a!"]),
        (pa.array([{"a": 1, "A": 2}]), "struct<a:bigint>", ["v", "v.a!"]),
        (pa.array([[1]]), "map<string,bigint>", ["v!"]),
        (pa.array([1]), "array<bigint>", ["v!"]),
        (pa.array([[{"x": "a"}]]), "array<struct<x:string,y:struct<z:int>>>", ["v", "v.element.y?"]),
        (pa.array([["a"]]), "array<varchar(3)>", []),
        (pa.array([["a"]]), "array<string collate UTF8_LCASE>", []),
        (pa.array([[datetime.date(1500, 1, 1)]]), "array<date>", ["v", "v.element!"]),
        (pa.array([[datetime.date(1900, 1, 1)]]), "array<date>", ["v"]),
        (pa.array([[Decimal("1.50")]], pa.list_(pa.decimal128(5, 2))), "array<decimal(6,2)>", ["v", "v.element!"]),
        (pa.array([[1]], pa.list_(pa.int32(), 1)), "array<int>", ["v!"]),
        (pa.array([[1]], pa.list_(pa.duration("us"))), "array<bigint>", ["v", "v.element!"]),
        (pa.array([["a"]], pa.large_list(pa.large_string())), "array<string>", ["v"]),
        (pa.array([["a"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))), "array<string>", ["v", "v.element!"]),
    ],
)
def test_marks(tmp_path: Path, values: pa.Array, type: str, marks: list[str]) -> None:
    found = marks_of(write(tmp_path / "f", values), type)
    assert found == marks or (marks and marks[0] == "v!" and "v!" in found)


def test_a_file_without_the_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "f")
    assert marks_of(tmp_path / "f", "array<int>") == ["v", "v?"]
    [batch] = parquet.read_rows(f"file:{tmp_path}/f", [KeyColumn("v", "array<int>")], [(0, np.array([1]))])
    assert batch.column("v").to_pylist() == [None]


def test_paths_with_dots_are_left_to_spark(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [{"a": 1}], "v.a": [2]}), tmp_path / "f")
    assert marks_of(tmp_path / "f", "struct<a:bigint>") == []


def test_legacy_int96(tmp_path: Path) -> None:
    """Their statistics prove no calendar, so only files that name it are read."""
    values = pa.array([[datetime.datetime(2020, 1, 1)]], pa.list_(pa.timestamp("us")))
    path = write(tmp_path / "f", values, use_deprecated_int96_timestamps=True, store_schema=False)
    assert marks_of(path, "array<timestamp>") == ["v", "v.element!"]


STRUCT = parse("struct<a:int,b:struct<c:int,d:int>>")


@pytest.mark.parametrize(
    ("marks", "readable"),
    [
        ([], False),
        (["v"], True),
        (["v", "v.a?"], True),
        (["v", "v.b?"], True),
        (["v", "v.a?", "v.b?"], False),
        (["v", "v.b.c?"], True),
        (["v", "v.b.c?", "v.b.d?"], False),
        (["v", "v.b.c!"], False),
        (["v", "v?"], True),
        (["v", "v.x!"], True),
    ],
)
def test_what_marks_allow(marks: list[str], readable: bool) -> None:
    assert STRUCT is not None
    assert (why_spark_only("v", STRUCT, marks) == "") == readable


def field(name: str, type: Any, nullable: bool = True, **metadata: str) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": nullable, "metadata": metadata}


@pytest.mark.parametrize(
    ("json", "type"),
    [
        ({"type": "array", "elementType": "integer", "containsNull": True}, "array<int>"),
        ({"type": "array", "elementType": "integer", "containsNull": False}, None),
        ({"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}, "map<string,bigint>"),
        ({"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False}, None),
        ({"type": "struct", "fields": [field("a", "byte", comment="x")]}, "struct<a:tinyint>"),
        ({"type": "struct", "fields": [field("a", "byte", False)]}, None),
        ({"type": "struct", "fields": [field("a", "string", __COLLATIONS="x")]}, None),
        ({"type": "struct", "fields": [field("a:int,b", "string")]}, None),
        ({"type": "struct", "fields": []}, None),
        ({"type": "struct", "fields": [field("a", "variant")]}, None),
        ({"type": "struct", "fields": [field("a", "interval year to month")]}, None),
        ({"type": "udt", "class": "x"}, None),
        (None, None),
    ],
)
def test_types_of_json(json: Any, type: str | None) -> None:
    found = of_json(json)
    assert (None if found is None else text(found)) == type


def test_a_row_group_of_one_row_may_lose_it(tmp_path: Path) -> None:
    """Its pages are so small that its column chunks begin with an empty one, of which Arrow reads nothing."""
    path = tmp_path / "file.parquet"
    columns = [KeyColumn("k", "int"), KeyColumn("a", "array<int>")]
    pq.write_table(
        pa.table({"k": pa.array([1], pa.int32()), "a": pa.array([[1]], pa.list_(pa.int32()))}), path, data_page_size=1
    )
    assert parquet.nested_marks(parquet.open_file(f"file:{path}"), columns) == []
    assert sum(batch.num_rows for batch in parquet.read_rows(f"file:{path}", columns[:1], [(0, None)])) == 1
    for selected in (None, np.array([0])):
        with pytest.raises(Undecodable, match=r"Arrow reads 0 of the 1 rows of block 0|block 0"):
            list(parquet.read_rows(f"file:{path}", columns, [(0, selected)]))
