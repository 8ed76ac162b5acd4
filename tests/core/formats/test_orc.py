"""Test reading ORC stripes without a JVM; pyarrow and pyorc are the oracles, each for files that the other wrote."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc as pyarrow_orc

from hive_bitmap.core.formats import orc
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.errors import Undecodable

COLUMNS = [KeyColumn("n", "bigint"), KeyColumn("s", "string"), KeyColumn("d", "date"), KeyColumn("none", "char(3)")]
UTC = datetime.timezone.utc


@pytest.fixture(scope="module")
def table() -> pa.Table:
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 20_000)
    return pa.table(
        {
            "n": numbers,
            "s": pa.array([None if n % 7 == 0 else f"é{n}" for n in numbers.tolist()]),
            "d": pa.array((numbers % 30_000).astype("int32")).cast(pa.date32()),
        }
    )


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("k=v") / "it's [a] *file?"
    pyarrow_orc.write_table(table, str(file), stripe_size=100_000, batch_size=1000)
    return f"file:{file}"


def write(tmp_path: Path, schema: str, rows: list[tuple[object, ...]], zone: str = "UTC") -> orc.OrcHandle:
    with open(tmp_path / "f", "wb") as file, pyorc.Writer(file, schema, timezone=ZoneInfo(zone)) as writer:
        writer.writerows(rows)
    return orc.open_file(f"file:{tmp_path / 'f'}")


def keys(handle: orc.OrcHandle, *columns: KeyColumn) -> list[tuple[object, ...]]:
    return list(zip(*orc.key_columns(handle, 0, columns).to_pydict().values(), strict=True))


def test_blocks_are_the_stripes_one_after_the_other(path: str) -> None:
    found = orc.blocks(orc.open_file(path))
    footer = pyarrow_orc.ORCFile(path.removeprefix("file:"))
    assert len(found) == footer.nstripes > 3
    assert found.rows.tolist() == [footer.read_stripe(i).num_rows for i in range(footer.nstripes)]
    assert found.offset[0] == 3  # after the magic "ORC"
    assert np.array_equal(found.offset[1:], found.offset[:-1] + found.length[:-1])
    assert found.offset[-1] + found.length[-1] == 3 + footer.content_length


def test_key_columns_are_the_columns_of_one_stripe(table: pa.Table, path: str) -> None:
    handle = orc.open_file(path)
    found = orc.blocks(handle)
    for block, first in enumerate(found.first_rows().tolist()):
        keys = orc.key_columns(handle, block, COLUMNS)
        rows = int(found.rows[block])
        assert keys.select(["n", "s", "d"]).equals(table.slice(first, rows))
        assert keys.column("none").null_count == rows


def test_columns_that_are_all_missing_have_as_many_rows_as_the_stripe(path: str) -> None:
    assert orc.key_columns(orc.open_file(path), 0, COLUMNS[3:]).num_rows == orc.blocks(orc.open_file(path)).rows[0]


@settings(max_examples=20)
@given(data=st.data())
def test_read_rows_equals_pyarrow(table: pa.Table, path: str, data: st.DataObject) -> None:
    found = orc.blocks(orc.open_file(path))
    some = sorted(data.draw(st.sets(st.integers(0, len(found) - 1))))
    rows = st.sets(st.integers(0, int(found.rows.min()) - 1), max_size=5).map(lambda of: np.array(sorted(of), np.int64))
    selection = [(block, data.draw(st.none() | rows)) for block in some]
    first = found.first_rows()
    wanted = [first[block] + (np.arange(found.rows[block]) if rows is None else rows) for block, rows in selection]
    columns = [COLUMNS[i] for i in (3, 1, 0, 2)]
    schema = pa.schema([(c.name, arrow_type(c)) for c in columns])
    read = pa.Table.from_batches(orc.read_rows(path, columns, selection), schema)
    expected = table.append_column("none", pa.nulls(len(table), pa.string()))
    indices = pa.array(np.concatenate([np.zeros(0, np.int64), *wanted]))
    assert read.equals(expected.take(indices).select([c.name for c in columns]))


def test_columns_without_names_are_found_by_position(tmp_path: Path) -> None:
    handle = write(tmp_path, "struct<_col0:int,_col1:string>", [(1, "a")])
    first, second = KeyColumn("x", "int", position=0), KeyColumn("y", "string", position=1)
    third = KeyColumn("z", "int", position=2)
    assert keys(handle, second, first, third) == [("a", 1, None)]
    assert orc.spark_only_columns(handle, [first, second, third]) == {}
    assert list(orc.spark_only_columns(handle, [first])) == ["x"]
    with pytest.raises(Undecodable, match="position"):
        keys(handle, KeyColumn("x", "int"))


@pytest.mark.parametrize(
    ("columns", "row", "by_name"),
    [
        ("a:int,b:string,c:decimal(7,2),e:date", (1, "x", Decimal(1), datetime.date(2020, 1, 1)), True),
        ("_col0:int", (1,), False),
        ("a:int,t:timestamp", (1, datetime.datetime(2020, 1, 1, tzinfo=UTC)), False),
        ("a:int,t:struct<b:int>", (1, (2,)), False),  # which may hold a timestamp, of Spark's own type also as a bigint
        ("a:int,t:array<timestamp>", (1, []), False),
        ("a:int,t:map<string,int>", (1, {}), False),
    ],
)
def test_files_whose_columns_may_be_moved(tmp_path: Path, columns: str, row: tuple[object, ...], by_name: bool) -> None:
    assert orc.by_name(write(tmp_path, f"struct<{columns}>", [row])) is by_name


def test_columns_with_ids_are_found_by_these(tmp_path: Path) -> None:
    path = tmp_path / "f"
    fields = {"a": pyorc.Int(), "b": pyorc.Int()}
    for id, field in enumerate(fields.values(), 7):
        field.set_attributes({"iceberg.id": str(id)})
    with path.open("wb") as out, pyorc.Writer(out, pyorc.Struct(**fields)) as writer:
        writer.writerows([(1, 2), (3, 4)])
    handle = orc.open_file(str(path))
    wanted = [KeyColumn("x", "int", field_id=8), KeyColumn("a", "int", field_id=9), KeyColumn("b", "int", field_id=7)]
    found = orc.key_columns(handle, 0, wanted).to_pydict()
    assert found == {"x": [2, 4], "a": [None, None], "b": [1, 3]}
    assert orc.spark_only_columns(handle, wanted) == {}
    with path.open("wb") as out, pyorc.Writer(out, pyorc.Struct(a=pyorc.Int())) as writer:
        writer.write((1,))
    with pytest.raises(Undecodable, match="columns of the file have none"):
        orc.key_columns(orc.open_file(str(path)), 0, wanted)


def test_names_are_found_without_case_and_must_be_clear(tmp_path: Path) -> None:
    handle = write(tmp_path, "struct<A:int,b:int,B:int,`c.d`:int,c:struct<d:int>,`e.f`:int>", [(1, 2, 3, 4, (5,), 6)])
    assert keys(handle, KeyColumn("a", "int"), KeyColumn("E.F", "int")) == [(1, 6)]
    schema = [KeyColumn(name, "int") for name in ("a", "b", "c", "c.d", "e.f")]
    assert set(orc.spark_only_columns(handle, schema)) == {"b", "c", "c.d"}


def test_chars_are_padded_to_the_length_of_the_table(tmp_path: Path) -> None:
    handle = write(tmp_path, "struct<c:char(5),s:string>", [("é ", "a "), ("", "abcde  ")])
    wanted = [("é  ", "é", "a   "), ("   ", "", "abcde  ")]
    shown = orc.key_columns(handle, 0, [KeyColumn("c", "char(3)"), KeyColumn("s", "char(4)")]).to_pydict()
    assert keys(handle, KeyColumn("c", "string")) == [("é",), ("",)]
    assert shown == {"c": [row[0] for row in wanted], "s": [row[2] for row in wanted]}


def test_timestamps_lie_in_the_zone_of_the_engine(tmp_path: Path) -> None:
    wall = datetime.datetime(2020, 7, 1, 12, 30, 0, 5)
    handle = write(tmp_path, "struct<t:timestamp>", [(wall.replace(tzinfo=UTC),), (None,)])
    for zone in ("UTC", "America/New_York", "Asia/Kathmandu"):
        assert keys(handle, KeyColumn("t", "timestamp", zone)) == [(wall.replace(tzinfo=ZoneInfo(zone)),), (None,)]
    assert orc.spark_only_columns(handle, [KeyColumn("t", "timestamp", "UTC")]) == {}
    assert list(orc.spark_only_columns(handle, [KeyColumn("t", "timestamp", "America/New_York")])) == ["t"]
    with pytest.raises(Undecodable, match="zone"):
        keys(handle, KeyColumn("t", "timestamp"))


@pytest.mark.parametrize(
    ("wall", "reason"),
    [
        ("0001-01-01", "range"),
        ("1899-12-31", "calendar"),
        ("1970-01-01 00:00:00.5", "fractions"),
        ("9999-12-31", "range"),
        ("2020-03-08 02:30", "exist"),
        ("2020-11-01 01:30", "mbiguous"),
    ],
)
def test_doubtful_timestamps_are_left_to_spark(tmp_path: Path, wall: str, reason: str) -> None:
    time = datetime.datetime.fromisoformat(wall).replace(tzinfo=UTC)
    handle = write(tmp_path, "struct<t:timestamp>", [(time,)])
    zone = "America/New_York" if time.year == 2020 else "UTC"
    assert list(orc.spark_only_columns(handle, [KeyColumn("t", "timestamp", zone)])) == ["t"]
    with pytest.raises(Undecodable, match=reason):
        keys(handle, KeyColumn("t", "timestamp", zone))


@pytest.mark.parametrize(("day", "refused"), [("1582-10-14", True), ("1582-10-15", False), ("9999-12-31", False)])
def test_dates_of_the_old_calendar_are_left_to_spark(tmp_path: Path, day: str, refused: bool) -> None:
    handle = write(tmp_path, "struct<d:date>", [(datetime.date.fromisoformat(day),), (None,)])
    assert list(orc.spark_only_columns(handle, [KeyColumn("d", "date")])) == ["d"] * refused
    if refused:
        with pytest.raises(Undecodable, match="calendar"):
            keys(handle, KeyColumn("d", "date"))
    else:
        assert keys(handle, KeyColumn("d", "date")) == [(datetime.date.fromisoformat(day),), (None,)]


@pytest.mark.parametrize(
    ("stored", "spark_type"),
    [
        ("int", "smallint"),
        ("string", "int"),
        ("boolean", "int"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(10,2)", "decimal(10,3)"),
    ],
)
def test_what_spark_refuses_or_bends_is_undecodable(tmp_path: Path, stored: str, spark_type: str) -> None:
    handle = write(tmp_path, f"struct<c:{stored}>", [(None,)])
    with pytest.raises(Undecodable, match="'c'"):
        keys(handle, KeyColumn("c", spark_type, "UTC"))


def test_a_file_without_rows_has_no_blocks(tmp_path: Path) -> None:
    assert len(orc.blocks(write(tmp_path, "struct<a:int>", []))) == 0


def test_damage_is_undecodable_and_absence_is_not(tmp_path: Path, path: str) -> None:
    content = Path(path.removeprefix("file:")).read_bytes()
    for name, bad in (("empty", b""), ("short", content[:-5]), ("text", b"ORC no, not really ORC")):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(Undecodable):
            orc.open_file(f"file:{tmp_path / name}")
    (tmp_path / "stripe").write_bytes(content[:3] + bytes(50_000) + content[50_003:])
    with pytest.raises(Undecodable):
        handle = orc.open_file(f"file:{tmp_path / 'stripe'}")
        orc.blocks(handle)
        orc.key_columns(handle, 0, COLUMNS)
    with pytest.raises(FileNotFoundError):
        orc.open_file(f"file:{tmp_path / 'none'}")
