"""What Spark reads is written to scratch files in the order of the splits, and found again: without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.building.staging import FILE, START, condition_on, splits, write
from hive_bitmap.spark.metastore.base_files import Source

SPLITS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([0, 64]), st.integers(0, 5)), min_size=1, max_size=12
)


def batch(rows: list[tuple[str, int, int]]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    arrays = [pa.array(columns[2], pa.int32()), pa.array(columns[0], pa.string()), pa.array(columns[1], pa.int64())]
    return pa.record_batch(arrays, ["k", FILE, START])


@given(SPLITS)
def test_a_batch_is_cut_where_the_split_changes(rows: list[tuple[str, int, int]]) -> None:
    found = list(splits(batch(rows)))
    told = [(*split, key) for split, values in found for key in values["k"].to_pylist()]
    assert told == rows
    assert all(values.num_rows and values.schema.names == ["k"] for _, values in found)
    assert all(found[at][0] != found[at + 1][0] for at in range(len(found) - 1))


def test_a_batch_without_rows_is_of_no_split() -> None:
    assert list(splits(batch([]))) == []


@given(st.lists(SPLITS, max_size=4))
@settings(max_examples=30)
def test_each_run_of_a_split_is_a_scratch_file(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, int, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("scratch")
    told = list(write((batch(rows) for rows in batches), f"file:{folder}"))
    rows = [row for some in batches for row in some]
    found = []
    for one in told:
        [part] = one.to_pylist()
        read = pq.read_table(folder / part["part"])
        assert read.column_names == ["k"] and read.num_rows
        found += [(part["path"], part["start"], key) for key in read["k"].to_pylist()]
    assert found == rows
    runs = sum(1 for at, row in enumerate(rows) if at == 0 or row[:2] != rows[at - 1][:2])
    assert len(told) == runs == len(list(folder.iterdir()))
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())  # they hold values of the table


def table(*columns: Column) -> Table:
    return Table(database="db", name="t", kind="MANAGED", partition_columns=columns)


P, Q = Column("p", "int"), Column("a `q", "string")


@pytest.mark.parametrize(
    ("columns", "values", "sql"),
    [
        ((P,), ("1",), "(`p` <=> try_cast('1' AS int))"),
        ((P,), (None,), "(`p` <=> try_cast(NULL AS int))"),
        (
            (P, Q),
            ("1", "it's"),
            "(`p` <=> try_cast('1' AS int) AND `a ``q` <=> try_cast(CAST(X'69742773' AS STRING) AS string))",
        ),
    ],
)
def test_a_partition_as_a_condition(columns: tuple[Column, ...], values: Values, sql: str) -> None:
    assert condition_on(table(*columns), Source(values, "", ())) == sql


def test_a_name_that_holds_a_variable_is_never_written() -> None:
    with pytest.raises(Unsupported):
        condition_on(table(Column("${x}", "int")), Source(("1",), "", ()))


def test_a_folder_that_is_gone_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        list(write(iter([batch([("a", 0, 1)])]), f"file:{tmp_path}/gone"))
