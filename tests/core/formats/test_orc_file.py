"""How the columns of an ORC file are found: by names without case, by positions, and by the ids of Iceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.orc_file import OrcHandle, find, footer, open_file, root
from hive_bitmap.errors import Undecodable

NOBODY: Any = None  # in place of the readers of a file, which finding a column does not ask


def handle(*columns: KeyColumn) -> OrcHandle:
    return OrcHandle("file:/w/f", NOBODY, NOBODY, columns, NOBODY)


def named(*names: str) -> OrcHandle:
    return handle(*(KeyColumn(name, "int") for name in names))


def found(opened: OrcHandle, column: KeyColumn) -> str | None:
    one = find(opened, column)
    return one and one[0]


@pytest.mark.parametrize(
    ("names", "positional"),
    [
        ([], False),
        (["_col0"], True),
        (["_col0", "_col1"], True),
        (["_col0", "a"], False),
        (["_COL0"], False),
        (["_column"], True),  # as Spark has it
        (["a"], False),
    ],
)
def test_files_without_names(names: list[str], positional: bool) -> None:
    assert named(*names).positional is positional


@pytest.mark.parametrize(
    ("names", "column", "stored"),
    [
        (["a", "b"], KeyColumn("b", "int"), "b"),
        (["a", "B"], KeyColumn("b", "int", position=0), "B"),
        (["a"], KeyColumn("none", "int", position=0), None),
        ([], KeyColumn("a", "int", position=0), None),
        (["_col0", "_col1"], KeyColumn("b", "int", position=1), "_col1"),
        (["_col1", "_col0"], KeyColumn("b", "int", position=1), "_col0"),  # the place counts, and not the number
        (["_col0"], KeyColumn("b", "int", position=1), None),  # a column that was added to the table
        (["a.b", "c"], KeyColumn("A.B", "int"), "a.b"),
        (["ab", "a"], KeyColumn("a", "int"), "a"),
    ],
)
def test_names_and_positions(names: list[str], column: KeyColumn, stored: str | None) -> None:
    assert found(named(*names), column) == stored


WITH_IDS = handle(*(KeyColumn(name, "int", field_id=id) for name, id in [("a", 7), ("b", 8), ("c", 8)]))


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (KeyColumn("renamed", "int", field_id=7), "a"),
        (KeyColumn("b", "int", field_id=7), "a"),
        (KeyColumn("a", "int", field_id=9), None),  # dropped, and added again
        (KeyColumn("a", "int"), "a"),  # a table without ids
    ],
)
def test_ids(column: KeyColumn, stored: str | None) -> None:
    assert found(WITH_IDS, column) == stored


@pytest.mark.parametrize(
    ("opened", "column", "reason"),
    [
        (
            handle(KeyColumn("a", "int", field_id=7), KeyColumn("b", "int")),
            KeyColumn("a", "int", field_id=7),
            "column 'a' has an id in the table, and columns of the file have none",
        ),
        (WITH_IDS, KeyColumn("b", "int", field_id=8), "column 'b' is ambiguous: the file has b, c"),
        (named("_col0"), KeyColumn("a", "int"), "column 'a' has no name in the file, and its position is not known"),
        (named("a", "x", "A"), KeyColumn("a", "int"), "column 'a' is ambiguous: the file has a, A"),
        (named("c.d", "c"), KeyColumn("c.d", "int"), "column 'c.d' cannot be told from a nested one"),
        (named("a"), KeyColumn("a", "smallint"), "column 'a' is stored as int, the table says smallint"),
    ],
)
def test_columns_that_are_in_doubt(opened: OrcHandle, column: KeyColumn, reason: str) -> None:
    with pytest.raises(Undecodable) as raised:
        find(opened, column)
    assert str(raised.value) == reason


NAMES = st.lists(st.text("aAb.", min_size=1, max_size=3), max_size=5, unique=True)


@settings(max_examples=200)
@given(NAMES, st.text("aAb.", min_size=1, max_size=3))
def test_a_name_is_found_only_where_it_is_the_only_one(names: list[str], name: str) -> None:
    alike = [one for one in names if one.lower() == name.lower()]
    nested = any(one.startswith(f"{other}.") for one in alike for other in names)
    if len(alike) > 1 or nested:
        with pytest.raises(Undecodable):
            found(named(*names), KeyColumn(name, "int"))
    else:
        assert found(named(*names), KeyColumn(name, "int")) == (alike[0] if alike else None)


def written(tmp_path: Path, schema: pyorc.TypeDescription | str, *rows: Any) -> Path:
    path = tmp_path / "a file"
    with path.open("wb") as out, pyorc.Writer(out, schema) as writer:
        writer.writerows(rows)
    return path


def test_columns_of_a_file(tmp_path: Path) -> None:
    fields = {"A": pyorc.Int(), "b": pyorc.BigInt(), "c": pyorc.Decimal(7, 2), "d": pyorc.String()}
    fields["A"].set_attributes({"iceberg.id": "3"})
    fields["b"].set_attributes({"spark.sql.catalyst.type": "timestamp_ntz", "iceberg.id": "-1"})
    path = written(tmp_path, pyorc.Struct(**fields))
    opened = open_file(f"file:{path}")
    assert opened.path == f"file:{path}"
    assert opened.columns == (
        KeyColumn("A", "int", field_id=3),
        KeyColumn("b", "timestamp_ntz"),
        KeyColumn("c", "decimal(7,2)"),
        KeyColumn("d", "string"),
    )
    assert {name: [one.name for one in columns] for name, columns in opened.by_name.items()} == {
        "a": ["A"], "b": ["b"], "c": ["c"], "d": ["d"],
    }  # fmt: skip


def test_a_row_that_is_no_struct(tmp_path: Path) -> None:
    path = written(tmp_path, "int", 1, 2)
    with pytest.raises(Undecodable, match=r"^a row of the file is int, not a struct$"):
        open_file(f"file:{path}")
    with path.open("rb") as source, pytest.raises(Undecodable):
        root(footer(source))  # type: ignore[arg-type]  # pyorc reads any file


@pytest.mark.parametrize("content", [b"", b"ORC", b"PAR1 is another format PAR1", bytes(300)])
def test_what_is_no_file_of_orc(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(Undecodable, match=r"^it does not end as an ORC file does$|^its footer cannot be decoded: "):
        open_file(f"file:{path}")
    with (
        path.open("rb") as source,
        pytest.raises(Undecodable, match=r"^it does not end as an ORC file does$|^its footer cannot be decoded: "),
    ):
        footer(source)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        open_file(f"file:{tmp_path}/none")


ODD = {
    "a column": pa.table({"a`b": [1], "k": [2]}),
    "a field": pa.table({"k": [2], "s": pa.array([{"x": 1, "a`b": 1}])}),
    "a field in a list": pa.table({"k": [2], "s": pa.array([[{"x": [{"a`b": 1}]}]])}),
    "a field in a map": pa.table(
        {"k": [2], "s": pa.array([[("m", {"a`b": 1})]], pa.map_(pa.string(), pa.struct([("a`b", pa.int32())])))}
    ),
}


@pytest.mark.parametrize("of", ODD)
def test_a_file_with_a_name_that_spark_does_not_find_is_left_to_spark(tmp_path: Path, of: str) -> None:
    orc.write_table(ODD[of], tmp_path / "a.orc")
    with pytest.raises(Undecodable, match="only Spark's own reader can tell what it reads for a column named 'a`b'"):
        open_file(f"file:{tmp_path}/a.orc")


def test_so_is_a_column_of_such_a_name_that_the_file_lacks(tmp_path: Path) -> None:
    orc.write_table(pa.table({"größe (cm), in %.#": [1]}), tmp_path / "a.orc")
    opened = open_file(f"file:{tmp_path}/a.orc")
    assert found(opened, KeyColumn("GRÖßE (cm), in %.#", "bigint")) == "größe (cm), in %.#"
    with pytest.raises(Undecodable, match="for a column named 'a`b'"):
        find(opened, KeyColumn("a`b", "bigint"))
