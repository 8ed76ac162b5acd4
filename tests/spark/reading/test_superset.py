"""The tasks that read the rows of a plan: how lookups are divided, and what each task is told."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.shard import key_columns
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.predicates.nodes import TRUE
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.selecting.split_order import Piece, pieces_in_order
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.reading.read_task import ReadTask
from hive_bitmap.spark.reading.superset import shared_tasks, task, tasks_of
from tests.core.planning.test_planner import looked_up

K, S, P = Column("k", "int"), Column("s", "string"), Column("p", "int")
BASE = Table(database="db", name="t", kind="MANAGED", columns=(K, S), partition_columns=(P,))
RESOLVED = ResolvedTable(base=BASE, indexes=(), conf={}, predicate=TRUE, cores=2)
REQUEST = Request(table="db.t", predicate=None, columns=())
PLAN = Plan(table="db.t", predicate=None, strategy=Strategy.ROWS, reason="")


def reading(results: LookupResults, columns: tuple[Column, ...] = (S,), constants: Any = None) -> Prepared:
    return Prepared(
        plan=PLAN,
        request=REQUEST,
        resolved=RESOLVED,
        format="parquet",
        columns=tuple(key_columns(columns, BASE.columns, "UTC")),
        constants=pa.table({"p": [10, 20, 30]}) if constants is None else constants,
        results=results,
    )


def results(*files: int) -> LookupResults:
    """Results of lookups of so many files of two blocks each."""
    found = [looked_up(*[[1, 0]] * count) for count in files]
    return LookupResults(
        partitions=(),
        lookups=tuple(one.lookups[0] for one in found),
        results=tuple(one.results[0] for one in found),
        whole_files=(),
        deleted=0,
    )


def pieces(work: LookupResults) -> list[Piece]:
    return [one for one in pieces_in_order(work, "parquet", 0) or () if isinstance(one, Piece)]


def paths(one: ReadTask) -> list[str]:
    return [one.lookups[piece.lookup].unit.paths[piece.file] for piece in one.pieces]


@pytest.mark.parametrize(
    ("files", "at_once", "sizes"),
    [
        ((), 4, []),
        ((5,), 1, [5]),
        ((5,), 2, [2, 3]),
        ((5,), 99, [1, 1, 1, 1, 1]),  # what belongs to a split is not divided
        ((3, 3), 4, [1, 2, 1, 2]),
        ((1, 1, 1), 2, [1, 2]),  # a task may be of several partitions
    ],
)
def test_pieces_are_divided(files: tuple[int, ...], at_once: int, sizes: list[int]) -> None:
    work = results(*files)
    assert [len(one.pieces) for one in tasks_of(reading(work), pieces(work), at_once)] == sizes


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 9), st.randoms(use_true_random=False))
def test_every_piece_is_in_one_task_with_its_blocks(files: list[int], at_once: int, rng: Random) -> None:
    work = results(*files)
    shuffled = pieces(work)
    rng.shuffle(shuffled)
    wanted = [work.lookups[piece.lookup].unit.paths[piece.file] for piece in shuffled]
    divided = tasks_of(reading(work), shuffled, at_once)
    assert [path for one in divided for path in paths(one)] == wanted
    for one in divided:
        for piece in one.pieces:
            unit = one.lookups[piece.lookup].unit
            assert unit.file[piece.first : piece.end].tolist() == [piece.file] * 2
            assert tuple(print.path for print in one.lookups[piece.lookup].fingerprints) == unit.paths
    together = shared_tasks(reading(work), shuffled, at_once)
    assert [path for one in together for path in paths(one)] == wanted
    assert len({id(one.lookups) for one in together}) == 1


@pytest.mark.parametrize(
    ("columns", "constants", "names"),
    [
        ((S,), pa.table({"p": [10, 20, 30]}), ("s", "p")),
        ((S, K), pa.table({"p": [10, 20, 30]}), ("k", "s", "p")),  # in the order of the table
        ((K,), pa.table({"": [0, 1, 2]}), ("k",)),
    ],
)
def test_the_columns_of_a_task(columns: tuple[Column, ...], constants: pa.Table, names: tuple[str, ...]) -> None:
    work = results(1)
    [one] = tasks_of(reading(work, columns, constants), pieces(work), 1)
    assert one.names == names
    assert [column.name for column in one.columns] == [column.name for column in columns]


def test_a_task_has_the_values_of_its_partitions() -> None:
    work = results(1, 1)
    work = replace(work, lookups=(work.lookups[0], replace(work.lookups[1], partitions=(2,))))
    [both] = tasks_of(reading(work), pieces(work), 1)
    assert both.constants.to_pydict() == {"p": [10, 30]}
    assert [one.constants.to_pydict() for one in tasks_of(reading(work), pieces(work), 2)] == [{"p": [10]}, {"p": [30]}]
    assert task(reading(work), work.lookups, pieces(work), check_only=True).check_only
