"""What a task reads of base files: the selected rows, in order, and never rows too few. No Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import parquet_rows
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.shard import key_columns
from hive_bitmap.core.predicates.nodes import TRUE, Compare, Constant, Predicate
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.lookup_units import LookupUnit
from hive_bitmap.core.selecting.split_order import Piece, Split
from hive_bitmap.errors import FileChanged
from hive_bitmap.spark.reading.read_task import ReadTask, read_task
from tests.core.selecting import lookups
from tests.core.selecting.test_select import COLUMNS, PREDICATES, Row, truth, unit_of

NO_CONSTANTS = pa.table({"": [0]})
SPLIT = Split((0, 0, 0), 0, 0)
K1 = Compare("k", "=", 1)


def lookup_now(unit: LookupUnit, predicate: Predicate) -> Lookup:
    """The lookup of a unit's files as they are now."""
    return lookups.lookup_of(unit, predicate, fingerprints=tuple(map(fingerprint.take, unit.paths)))


def pieces_of(*lookups: Lookup) -> list[Piece]:
    """A piece for each file, with all of its blocks."""
    edges = [np.searchsorted(one.unit.file, np.arange(len(one.unit.paths) + 1)).tolist() for one in lookups]
    return [
        Piece(number, file, *some, SPLIT) for number, of in enumerate(edges) for file, some in enumerate(pairwise(of))
    ]


def task(*lookups: Lookup, names: Sequence[str] = ("k", "s"), **fields: Any) -> ReadTask:
    wanted = [column for column in COLUMNS if column.name in names]
    given: dict[str, Any] = {
        "format": "parquet",
        "columns": tuple(key_columns(wanted, COLUMNS, "UTC")),
        "constants": NO_CONSTANTS,
        "names": tuple(names),
        "lookups": lookups,
        "pieces": tuple(pieces_of(*lookups)),
        "matching_keys": {},
    }
    return ReadTask(**(given | fields))


def rows_of(read: ReadTask) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in read_task(read) for row in batch.to_pylist()]


def rows(*keys: int | None) -> list[Row]:
    return [{"k": key, "s": f"{number}", "f": 0.0} for number, key in enumerate(keys)]


@given(st.lists(st.lists(st.sampled_from([None, 0, 1, 2]), max_size=13), min_size=1, max_size=3), PREDICATES, st.data())
@settings(max_examples=60)
def test_all_rows_that_may_match_are_read_in_order_and_once(
    tmp_path: Path, keys: list[list[int | None]], predicate: Predicate, data: st.DataObject
) -> None:
    files = [rows(*some) for some in keys]
    known = sorted(data.draw(st.sets(st.sampled_from(range(len(files))))))
    unit = unit_of(tmp_path, files, {"k": "gap", "s": "gap"}, {"k": known, "s": known})
    found = rows_of(task(lookup_now(unit, predicate)))
    everything = [(row["k"], row["s"]) for some in files for row in some]
    wanted = [(row["k"], row["s"]) for some in files for row in some if truth(predicate, row)]
    remaining = iter(everything)
    assert all(one in remaining for one in found)  # in the order of the files, and none twice
    left = list(found)
    for one in wanted:
        left.remove(one)


def test_only_selected_rows_of_the_wanted_columns_are_read(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows(1, 2, 1), rows(3)], {"k": "gap"}, {"k": [0, 1]})
    assert rows_of(task(lookup_now(unit, K1))) == [(1, "0"), (1, "2")]
    assert rows_of(task(lookup_now(unit, K1), names=("s",))) == [("0",), ("2",)]
    assert rows_of(task(lookup_now(unit, Constant(False)))) == []


def test_values_of_the_partition_have_their_place(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows(1, 2)], {"k": "gap"}, {"k": [0]})
    constants = pa.table({"p": pa.array(["x"]), "q": pa.array([None], pa.int32())})
    found = rows_of(task(lookup_now(unit, K1), names=("q", "k", "p"), constants=constants))
    assert found == [(None, 1, "x")]


def test_rows_come_in_the_order_of_the_pieces(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows(1, 2, 1, 1), rows(1)], {"k": "gap"}, {"k": [0, 1]}, block_rows=2)
    one = task(lookup_now(unit, K1))
    first, second = one.pieces
    parts = (replace(first, first=1), second, replace(first, end=1))
    found = rows_of(replace(one, pieces=parts))
    assert found == [(1, "2"), (1, "3"), (1, "0"), (1, "0")]


def test_a_file_that_was_replaced_ends_the_query(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows(2, 2), rows(1)], {"k": "gap"}, {"k": [0, 1]})
    lookup = lookup_now(unit, K1)
    pq.write_table(pa.table({"k": pa.array([1, 5], pa.int32()), "s": ["new", "newer"]}), unit.paths[0][5:])
    with pytest.raises(FileChanged, match="was replaced after the query was planned"):
        rows_of(task(lookup))


@pytest.mark.parametrize("check_only", [False, True])
def test_a_file_that_is_gone_ends_the_query(tmp_path: Path, check_only: bool) -> None:
    unit = unit_of(tmp_path, [rows(2)], {"k": "gap"}, {"k": [0]})
    lookup = lookup_now(unit, K1)  # none of its rows matches
    os.unlink(unit.paths[0][5:])
    with pytest.raises(FileChanged) as raised:
        rows_of(task(lookup, check_only=check_only))
    assert str(raised.value) == f"{unit.paths[0]} was deleted after the query was planned: run it again"


def test_a_task_that_only_checks_reads_nothing_and_ends_the_query_for_a_change(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows(1)], {"k": "gap"}, {"k": [0]})
    one = task(lookup_now(unit, TRUE), check_only=True)
    assert rows_of(one) == []
    os.utime(unit.paths[0][5:], (1, 1))
    with pytest.raises(FileChanged, match=r"was replaced after the query was planned: run it again$"):
        rows_of(one)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, [rows(*[1] * 5)], {"k": "gap"}, {"k": [0]})
    found = read_task(task(lookup_now(unit, K1)))
    assert next(found).num_rows
    os.utime(unit.paths[0][5:], (len(unit.paths[0]), 1))
    with pytest.raises(FileChanged, match=r"was replaced while it was read: run the query again$"):
        list(found)


@pytest.fixture
def many(tmp_path: Path) -> LookupUnit:
    """Three files of 600 rows, in each of which few have k = 1."""
    files = [rows(*(1 if number % 200 == 7 else 2 for number in range(600))) for _ in range(3)]
    return unit_of(tmp_path, files, {"k": "gap"}, {"k": [0, 1, 2]}, block_rows=300)


def test_few_rows_of_several_files_are_read_by_one_query(many: LookupUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    by_numbers = parquet_rows._by_numbers

    def seen(paths: Sequence[str], *given: Any) -> pa.Table:
        asked.append([*paths])
        return by_numbers(paths, *given)

    monkeypatch.setattr(parquet_rows, "_by_numbers", seen)
    found = rows_of(task(lookup_now(many, K1)))
    assert found == [(1, str(number)) for number in (7, 207, 407)] * 3
    assert asked == [[path[5:] for path in many.paths]]


@pytest.mark.parametrize("change", ["replace", "delete"])
def test_one_of_several_files_changes_while_they_are_read(
    many: LookupUnit, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    by_numbers = parquet_rows._by_numbers

    def changing(*given: Any) -> pa.Table:
        read = by_numbers(*given)
        if change == "delete":
            os.remove(many.paths[1][5:])
        else:
            os.utime(many.paths[1][5:], (1, 1))
        return read

    monkeypatch.setattr(parquet_rows, "_by_numbers", changing)
    with pytest.raises(FileChanged, match=r"^file:.* was (replaced while it was read|deleted after .*): run"):
        rows_of(task(lookup_now(many, K1)))


def test_one_of_several_files_had_changed_before(many: LookupUnit) -> None:
    lookup = lookup_now(many, K1)
    pq.write_table(pa.table({"k": pa.array([1, 5], pa.int32()), "s": ["new", "newer"]}), many.paths[1][5:])
    with pytest.raises(FileChanged, match="was replaced after the query was planned"):
        rows_of(task(lookup))


def test_a_column_that_is_read_need_not_be_among_the_names(tmp_path: Path) -> None:
    """A scan of partition columns alone reads a data column, which tells how many rows there are."""
    unit = unit_of(tmp_path, [rows(1, 2, 1)], {"k": "gap"}, {"k": [0]})
    one = task(lookup_now(unit, K1), names=("k",), constants=pa.table({"p": [7]}))
    assert rows_of(replace(one, names=("p",))) == [(7,), (7,)]
