"""The tasks that read the rows of a plan: how lookups are divided, and what each task is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.index.table_schema import key_columns
from hive_bitmap.core.predicates.nodes import TRUE
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.preparing.prepare import Reading
from hive_bitmap.spark.preparing.request import ResolvedTable
from hive_bitmap.spark.reading.superset import task, tasks_of
from tests.core.planning.test_planner import looked_up

K, S, P = Column("k", "int"), Column("s", "string"), Column("p", "int")
BASE = Table(database="db", name="t", kind="MANAGED", columns=(K, S), partition_columns=(P,))
RESOLVED = ResolvedTable(base=BASE, indexes=(), settings={}, predicate=TRUE, evaluate=lambda *given: None, cores=2)


def reading(results: LookupResults, columns: tuple[Column, ...] = (S,), constants: Any = None) -> Reading:
    return Reading(
        resolved=RESOLVED,
        format="parquet",
        columns=tuple(key_columns(columns, BASE.columns, "UTC")),
        constants=pa.table({"p": [10, 20, 30]}) if constants is None else constants,
        results=results,
    )


def results(*files: int, whole: int = 0) -> LookupResults:
    """Results of lookups of so many files of two blocks each, and of files that are read whole, of partition 2."""
    found = [looked_up(*[[1, 0]] * count) for count in files]
    new = tuple(WholeFile(2, FileStatus(f"file:/w/new{n}", 5, 1, ""), Freshness.UNINDEXED, "") for n in range(whole))
    return LookupResults(
        partitions=(),
        lookups=tuple(one.lookups[0] for one in found),
        results=tuple(one.results[0] for one in found),
        whole_files=new,
        deleted=0,
    )


@pytest.mark.parametrize(
    ("files", "whole", "at_once", "sizes"),
    [
        ((), 0, 4, []),
        ((5,), 0, 1, [5]),
        ((5,), 0, 2, [3, 2]),
        ((5,), 0, 99, [1, 1, 1, 1, 1]),  # a file is not divided
        ((3, 3), 0, 4, [2, 1, 2, 1]),
        ((1, 1, 1), 0, 2, [1, 1, 1]),  # a task is of one partition
        ((2,), 2, 1, [2]),  # no task reads a file that no index knows
    ],
)
def test_lookups_are_divided_by_files(files: tuple[int, ...], whole: int, at_once: int, sizes: list[int]) -> None:
    assert [len(one.paths) for one in tasks_of(reading(results(*files, whole=whole)), at_once)] == sizes


@given(st.lists(st.integers(1, 5), max_size=4), st.integers(0, 3), st.integers(1, 9))
def test_every_file_is_in_one_task_with_its_blocks(files: list[int], whole: int, at_once: int) -> None:
    work = results(*files, whole=whole)
    tasks = tasks_of(reading(work), at_once)
    wanted = [path for lookup in work.lookups for path in lookup.unit.paths]
    assert [path for one in tasks for path in one.paths] == wanted
    for one in tasks:
        unit = one.lookup.unit
        assert unit.file.tolist() == np.repeat(np.arange(len(unit.paths)), 2).tolist()
        assert tuple(print.path for print in one.lookup.fingerprints) == unit.paths


@pytest.mark.parametrize(
    ("columns", "constants", "names"),
    [
        ((S,), pa.table({"p": [10, 20, 30]}), ("s", "p")),
        ((S, K), pa.table({"p": [10, 20, 30]}), ("k", "s", "p")),  # in the order of the table
        ((K,), pa.table({"": [0, 1, 2]}), ("k",)),
    ],
)
def test_the_columns_of_a_task(columns: tuple[Column, ...], constants: pa.Table, names: tuple[str, ...]) -> None:
    [one] = tasks_of(reading(results(1), columns, constants), 1)
    assert one.names == names
    assert [column.name for column in one.columns] == [column.name for column in columns]


def test_a_task_has_the_values_of_its_partition() -> None:
    work = results(1)
    last = replace(work, lookups=(replace(work.lookups[0], partition=2),))
    for found, value in ((work, 10), (last, 30)):
        [one] = tasks_of(reading(found), 1)
        assert one.constants.to_pydict() == {"p": [value]} and not one.check_only
    assert task(reading(work), work.lookups[0], check_only=True).check_only
