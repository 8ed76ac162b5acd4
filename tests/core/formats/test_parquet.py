"""Test reading Parquet row groups without a JVM. pyarrow is the oracle for rows, the footer for offsets."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import parquet, parquet_rows
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.errors import Undecodable

ROWS, GROUP = 1000, 300
COLUMNS = [
    KeyColumn("n", "bigint"),
    KeyColumn("s", "string"),
    KeyColumn("f", "double"),
    KeyColumn("d", "date"),
    KeyColumn("b", "binary"),
    KeyColumn("t", "timestamp"),
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    numbers = np.arange(ROWS)
    return pa.table(
        {
            "n": numbers,
            "s": pa.array([None if i % 7 == 0 else f"é{i % 50}" for i in range(ROWS)]),
            "f": numbers / 3,
            "d": pa.array(numbers.astype("int32")).cast(pa.date32()),
            "b": pa.array([bytes([i % 256]) for i in range(ROWS)]),
            "t": pa.array(numbers * 1_000_001).cast(pa.timestamp("us", tz="UTC")),
        }
    )


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("k=v") / "it's a file"
    pq.write_table(table, file, row_group_size=GROUP)
    return f"file:{file}"


def write(tmp_path: Path, table: pa.Table, **options: object) -> parquet.ParquetHandle:
    pq.write_table(table, tmp_path / "f", **options)
    return parquet.open_file(f"file:{tmp_path / 'f'}")


def column(values: pa.Array) -> pa.Table:
    return pa.table({"c": values})


def test_blocks_are_the_row_groups_of_the_footer(path: str) -> None:
    found = parquet.blocks(parquet.open_file(path))
    footer = pq.read_metadata(path.removeprefix("file:"))
    groups = [footer.row_group(i).to_dict() for i in range(footer.num_row_groups)]
    assert found.rows.tolist() == [300, 300, 300, 100]
    assert found.offset.tolist() == [group["columns"][0]["data_page_offset"] for group in groups]
    assert found.length.tolist() == [sum(c["total_compressed_size"] for c in group["columns"]) for group in groups]
    assert found.first_rows().tolist() == [0, 300, 600, 900]


def test_the_offset_lies_after_the_dictionary_page(path: str) -> None:
    first = pq.read_metadata(path.removeprefix("file:")).row_group(0).column(0)
    assert first.dictionary_page_offset == 4
    assert parquet.blocks(parquet.open_file(path)).offset[0] == first.data_page_offset > 4


def test_a_file_without_rows_has_blocks_without_rows(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "f", pa.schema([("c", pa.int64())])) as writer:
        for rows in (0, 2, 0, 0):
            writer.write_table(column(pa.array(range(rows), pa.int64())))
    handle = parquet.open_file(f"file:{tmp_path / 'f'}")
    assert parquet.blocks(handle).rows.tolist() == [0, 2, 0, 0]
    assert parquet.key_columns(handle, 0, [KeyColumn("c", "bigint")]).num_rows == 0
    assert parquet.key_columns(handle, 1, [KeyColumn("c", "bigint")]).to_pydict() == {"c": [0, 1]}


def test_key_columns_are_the_columns_of_one_row_group(table: pa.Table, path: str) -> None:
    handle = parquet.open_file(path)
    for block in range(4):
        keys = parquet.key_columns(handle, block, COLUMNS)
        assert keys.to_pydict() == table.slice(block * GROUP, GROUP).to_pydict()


def test_strings_come_as_dictionaries(path: str) -> None:
    keys = parquet.key_columns(parquet.open_file(path), 0, [KeyColumn("s", "string")])
    assert pa.types.is_dictionary(keys.schema.field("s").type)


selections = st.lists(
    st.one_of(st.none(), st.sets(st.integers(0, 99), max_size=100), st.sets(st.integers(0, 99), max_size=5)),
    min_size=4,
    max_size=4,
)


@settings(max_examples=40)
@given(chosen=selections, blocks=st.sets(st.integers(0, 3)), sparse=st.sampled_from([0.0, 0.2, 1.0]))
def test_read_rows_equals_pyarrow(
    table: pa.Table,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    chosen: list[set[int] | None],
    blocks: set[int],
    sparse: float,
) -> None:
    """Read whole blocks and single rows, with DuckDB, with pyarrow, and with both in turn."""
    monkeypatch.setattr(parquet_rows, "_SPARSE", sparse)
    monkeypatch.setattr(parquet_rows, "_BATCH_ROWS", 40)
    selection = [(b, None if chosen[b] is None else np.array(sorted(chosen[b]), np.int64)) for b in sorted(blocks)]
    wanted = [range(300 if b < 3 else 100) if chosen[b] is None else sorted(chosen[b]) for b in sorted(blocks)]
    rows = [b * GROUP + row for b, some in zip(sorted(blocks), wanted, strict=True) for row in some]
    columns = [COLUMNS[4], COLUMNS[0], KeyColumn("none", "char(3)"), *COLUMNS[1:4], COLUMNS[5]]
    batches = list(parquet.read_rows(path, columns, selection))
    assert all(batch.num_rows for batch in batches)
    read = pa.Table.from_batches(batches, pa.schema([(c.name, parquet_rows.column_type(c)) for c in columns]))
    expected = table.append_column("none", pa.nulls(ROWS, pa.string())).take(pa.array(rows, pa.int64()))
    assert read.equals(expected.select([c.name for c in columns]))


@pytest.mark.parametrize("name", ["g*b", "w?y", "[ab]", "{a,b}"])
def test_names_that_are_patterns_are_read_all_the_same(tmp_path: Path, name: str) -> None:
    for file in (name, "gxb", "wxy", "a", "b"):
        pq.write_table(column(pa.array([file])), tmp_path / file)
    read = parquet.read_rows(f"file:{tmp_path}/{name}", [KeyColumn("c", "string")], [(0, np.array([0]))])
    assert [batch.to_pydict() for batch in read] == [{"c": [name]}]


@pytest.mark.parametrize("names", [["c", 'a"b', "C x", "a.b"], ["c", "file_row_number"], ["c", "a", "A", "A_1"]])
def test_odd_column_names(tmp_path: Path, names: list[str]) -> None:
    """Each column contains its own name. Columns whose names differ in case only are refused, others are read."""
    pq.write_table(pa.table([pa.array([name] * 10) for name in names], names=names), tmp_path / "f")
    columns = [KeyColumn(name, "string") for name in names]
    refused = parquet.spark_only_columns(parquet.open_file(f"file:{tmp_path}/f"), columns)
    assert set(refused) == ({"a", "A"} & set(names) if "A" in names else set())
    kept = [c for c in columns if c.name not in refused]
    read = parquet.read_rows(f"file:{tmp_path}/f", kept, [(0, np.array([3]))])
    assert [batch.to_pydict() for batch in read] == [{c.name: [c.name] for c in kept}]


def test_a_nested_column_is_not_taken_for_one_with_a_dot(tmp_path: Path) -> None:
    handle = write(tmp_path, pa.table({"a": [{"b": 1}], "a.b": [2]}))
    assert parquet.key_columns(handle, 0, [KeyColumn("a.b", "bigint")]).to_pydict() == {"a.b": [2]}
    columns = [KeyColumn("a", "struct<b:bigint>"), KeyColumn("A.B", "bigint")]
    assert list(parquet.spark_only_columns(handle, columns)) == ["a"]
    with pytest.raises(Undecodable, match="nested"):
        parquet.key_columns(handle, 0, [KeyColumn("a", "bigint")])


def test_a_missing_column_is_null_of_its_type(path: str) -> None:
    keys = parquet.key_columns(parquet.open_file(path), 3, [KeyColumn("none", "decimal(7,2)")])
    assert keys.schema.field("none").type == pa.decimal128(7, 2)
    assert keys.column(0).null_count == 100


def test_keys_have_one_zero_one_nan_and_padded_chars(tmp_path: Path) -> None:
    odd = np.array([0xFFF8_0000_0000_0001, 0x7FF8_0000_0000_0000, 0x8000_0000_0000_0000, 0], np.uint64).view(np.float64)
    handle = write(tmp_path, pa.table({"f": odd, "c": ["", "é", "abcd", None]}))
    keys = parquet.key_columns(handle, 0, [KeyColumn("f", "double"), KeyColumn("c", "char(3)")])
    bits = keys.column("f").combine_chunks().to_numpy().view(np.uint64)
    assert bits.tolist() == [0x7FF8_0000_0000_0000] * 2 + [0] * 2
    assert keys.column("c").to_pylist() == ["   ", "é  ", "abcd", None]


@pytest.mark.parametrize("sparse", [0.0, 1.0])
@pytest.mark.parametrize("annotated", [True, False])
def test_bytes_that_are_no_text_are_rows_but_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sparse: float, annotated: bool
) -> None:
    monkeypatch.setattr(parquet_rows, "_SPARSE", sparse)
    raw = [b"a", b"\xff\xfe", None]
    values = pa.array(raw)
    text = pa.Array.from_buffers(pa.string(), 3, values.buffers()) if annotated else values
    handle = write(tmp_path, column(text))
    read = list(parquet.read_rows(handle.path, [KeyColumn("c", "string")], [(0, np.array([0, 1, 2]))]))
    assert [batch.column(0).cast(pa.binary()).to_pylist() for batch in read] == [raw]
    with pytest.raises(Undecodable, match="UTF"):
        parquet.key_columns(handle, 0, [KeyColumn("c", "string")])


OLD = [datetime.date(1582, 10, 14), None]
SPARK_3 = {"org.apache.spark.version": "3.0.1"}


@pytest.mark.parametrize(
    ("metadata", "refused"),
    [
        ({}, True),
        ({"org.apache.spark.version": "2.4.8"}, True),
        (SPARK_3, False),
        (SPARK_3 | {"org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "10.0.0-SNAPSHOT"}, False),
    ],
)
def test_old_dates_are_read_only_from_files_that_tell_their_calendar(
    tmp_path: Path, metadata: dict[str, str], refused: bool
) -> None:
    handle = write(tmp_path, column(pa.array(OLD)).replace_schema_metadata(metadata))
    assert bool(parquet.spark_only_columns(handle, [KeyColumn("c", "date")])) == refused
    if refused:
        with pytest.raises(Undecodable, match="calendar"):
            parquet.key_columns(handle, 0, [KeyColumn("c", "date")])
    else:
        assert parquet.key_columns(handle, 0, [KeyColumn("c", "date")]).to_pydict() == {"c": OLD}


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_statistics_clear_a_timestamp_column_of_suspicion(tmp_path: Path, unit: str) -> None:
    year_1900 = {"ms": -2_208_988_800_000, "us": -2_208_988_800_000_000}[unit]
    kind = pa.timestamp(unit, tz="UTC")
    new, old, none = ([year_1900, None], [year_1900 - 1], [None])
    for values, statistics, refused in ((new, True, False), (old, True, True), (new, False, True), (none, True, False)):
        handle = write(tmp_path, column(pa.array(values, kind)), write_statistics=statistics)
        assert bool(parquet.spark_only_columns(handle, [KeyColumn("c", "timestamp")])) == refused
    with pytest.raises(Undecodable, match="calendar"):
        parquet.key_columns(write(tmp_path, column(pa.array(old, kind))), 0, [KeyColumn("c", "timestamp")])


def test_int96_reaches_the_year_9999(tmp_path: Path) -> None:
    last = pa.array([253_402_300_799_999_999], pa.timestamp("us", tz="UTC"))
    handle = write(tmp_path, column(last.cast(pa.timestamp("us"))), use_deprecated_int96_timestamps=True)
    assert parquet.key_columns(handle, 0, [KeyColumn("c", "timestamp")]).column(0).combine_chunks() == last
    assert "c" in parquet.spark_only_columns(handle, [KeyColumn("c", "timestamp")])


@pytest.mark.parametrize(
    ("values", "spark_type"),
    [
        (pa.array([40_000], pa.int32()), "smallint"),
        (pa.array([1], pa.int64()), "int"),
        (pa.array([1], pa.uint32()), "int"),
        (pa.array([1.0]), "float"),
        (pa.array([1], pa.timestamp("ns")), "timestamp"),
        (pa.array([1], pa.timestamp("us", tz="UTC")), "timestamp_ntz"),
        (pa.array(["1.5"]).cast(pa.decimal128(10, 2)), "decimal(10,1)"),
        (pa.array(["1.5"]).cast(pa.decimal128(10, 2)), "decimal(10,4)"),
        (pa.array(["a"]), "date"),
    ],
)
def test_what_spark_refuses_or_bends_is_undecodable(tmp_path: Path, values: pa.Array, spark_type: str) -> None:
    handle = write(tmp_path, column(values))
    with pytest.raises(Undecodable, match="'c'"):
        parquet.key_columns(handle, 0, [KeyColumn("c", spark_type)])


def test_damage_is_undecodable_and_absence_is_not(tmp_path: Path, path: str) -> None:
    content = Path(path.removeprefix("file:")).read_bytes()
    for name, bad in (("empty", b""), ("short", content[:-100]), ("text", b"PAR1 no, not really PAR1")):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(Undecodable):
            parquet.open_file(f"file:{tmp_path / name}")
    (tmp_path / "page").write_bytes(content[:4] + bytes(2000) + content[2004:])
    with pytest.raises(Undecodable):
        parquet.key_columns(parquet.open_file(f"file:{tmp_path / 'page'}"), 0, COLUMNS[:1])
    with pytest.raises(FileNotFoundError):
        parquet.open_file(f"file:{tmp_path / 'none'}")


@pytest.mark.parametrize("days", [-719163, 2932897])
def test_dates_outside_of_pythons_years_are_no_keys(tmp_path: Path, days: int) -> None:
    metadata = {"org.apache.spark.version": "4.0.0"}
    values = column(pa.array([0, days], pa.int32()).cast(pa.date32())).replace_schema_metadata(metadata)
    handle = write(tmp_path, values)
    with pytest.raises(Undecodable, match="outside the years 1 to 9999"):
        parquet.key_columns(handle, 0, [KeyColumn("c", "date")])
    within = write(
        tmp_path, column(pa.array([-719162, 2932896], pa.int32()).cast(pa.date32())).replace_schema_metadata(metadata)
    )
    assert len(parquet.key_columns(within, 0, [KeyColumn("c", "date")])) == 2


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_whose_pages_are_no_dictionaries(tmp_path: Path, encoding: str) -> None:
    """Such columns can be keys. If the Arrow schema in the file asks for a dictionary, Arrow cannot read them."""
    values = pa.array([str(number % 7) for number in range(100)])
    options = {"use_dictionary": False, "column_encoding": {"c": encoding}}
    handle = write(tmp_path, column(values), **options)
    assert parquet.spark_only_columns(handle, [KeyColumn("c", "string")]) == {}
    assert parquet.key_columns(handle, 0, [KeyColumn("c", "string")])["c"].to_pylist() == values.to_pylist()
    handle = write(tmp_path, column(values.dictionary_encode()), **options)
    assert "no" in parquet.spark_only_columns(handle, [KeyColumn("c", "string")])["c"]
    handle = write(tmp_path, column(values.dictionary_encode()))
    assert parquet.spark_only_columns(handle, [KeyColumn("c", "string")]) == {}


@pytest.mark.parametrize(("view", "spark_type"), [(pa.string_view(), "string"), (pa.binary_view(), "binary")])
def test_rows_of_columns_that_are_views(tmp_path: Path, view: pa.DataType, spark_type: str) -> None:
    values = pa.array([str(number % 7) for number in range(100)])
    handle = write(tmp_path, column(values.cast(view)))
    wanted = np.arange(0, 100, 2)
    columns = [KeyColumn("c", spark_type)]
    found = pa.Table.from_batches(parquet_rows.read_rows(handle.path, columns, [(0, wanted)]))
    assert found["c"].cast(pa.string()).to_pylist() == values.take(pa.array(wanted)).to_pylist()
    assert parquet.key_columns(handle, 0, columns)["c"].cast(pa.string()).to_pylist() == values.to_pylist()


def test_a_column_is_found_by_its_name_in_files_or_by_its_id(tmp_path: Path) -> None:
    """Of a table that maps columns: the name in the table says nothing, and an id beats any name."""
    fields = [pa.field(name, pa.int32(), metadata={"PARQUET:field_id": str(id)}) for name, id in (("a", 1), ("b", 2))]
    path = str(tmp_path / "with_ids.parquet")
    pq.write_table(pa.table([[1], [2]], schema=pa.schema(fields)), path)
    handle = parquet.open_file(path)
    wanted = {
        KeyColumn("b", "int", file_name="a"): [1],
        KeyColumn("b", "int", file_name="x"): [None],
        KeyColumn("b", "int", file_name="b", field_id=1): [1],
        KeyColumn("b", "int", file_name="b", field_id=9): [None],
    }
    for column, values in wanted.items():
        assert parquet.key_columns(handle, 0, [column])["b"].to_pylist() == values, column
    without = str(tmp_path / "without.parquet")
    pq.write_table(pa.table({"b": [1]}), without)
    with pytest.raises(Undecodable, match="columns of the file have none"):
        parquet.key_columns(parquet.open_file(without), 0, [KeyColumn("b", "int", field_id=1)])
