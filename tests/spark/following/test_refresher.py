"""What a process tells of files that a query found unindexed, and whether it has a refresh done for them."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile
from hive_bitmap.core.selecting.table_files import PartitionState
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.following.refresh_queue import RefreshKey, RefreshRequest
from hive_bitmap.spark.following.refresher import Refresher
from hive_bitmap.spark.registry.catalog import Index

BASE = Table(
    database="db",
    name="t",
    kind="MANAGED",
    columns=(Column("k", "int"),),
    partition_columns=(Column("p", "int"),),
    location="file:/w/t",
)
STOPPED: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))  # a session whose Spark has ended


def index(interval: str = "30 seconds", follows: bool = True, name: str = "i") -> Index:
    definition = Definition(
        name=name,
        database="db",
        table="t",
        columns=BASE.columns,
        auto_refresh=follows,
        refresh_interval=interval,
    )
    return Index(definition=definition, table=BASE)


def found(*ages: float) -> LookupResults:
    """Files that were written so many seconds ago, a partition each, and that no index knows."""
    now = time.time()
    states = tuple(
        PartitionState(name="", values=(str(number),), files=(), number=number) for number in range(len(ages))
    )
    files = tuple(
        WholeFile(number, FileStatus(f"file:/w/{number}", 1000, int((now - age) * 1000), ""), Freshness.UNINDEXED, "")
        for number, age in enumerate(ages)
    )
    return LookupResults(partitions=states, lookups=(), results=(), whole_files=files, deleted=0)


class Seeing:
    """A process whose queue keeps what is wanted, and what it has told the JVM of the lag."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self.refresher = Refresher(lambda session: SimpleNamespace(lag=self.lags.append))
        self.wanted: list[RefreshRequest] = []
        queue = self.refresher.queue
        want = queue.want

        def keep(wanted: RefreshRequest) -> bool:
            self.wanted.append(wanted)
            return want(wanted)

        queue.want = keep  # type: ignore[method-assign]

    def seen(self, results: LookupResults, *indexes: Index) -> str:
        return self.refresher.seen(STOPPED, BASE, indexes, results)


@pytest.mark.parametrize(
    ("ages", "indexes", "told"),
    [
        ([], [index()], ""),
        ([99], [], ""),
        ([99], [index(follows=False)], ""),
        ([1], [index()], "1 file (1.0 kB) not indexed yet"),  # a write that was just seen has its own refresh
        ([1, 2], [index()], "2 files (2.0 kB) not indexed yet"),
    ],
)
def test_young_files_are_told_and_left_to_their_write(ages: list[float], indexes: list[Index], told: str) -> None:
    seeing = Seeing()
    assert seeing.seen(found(*ages), *indexes) == told
    assert seeing.wanted == [] and bool(seeing.lags) is bool(told)


def test_files_that_are_older_than_the_interval_have_a_refresh() -> None:
    seeing = Seeing()
    assert seeing.seen(found(1, 99), index()) == "2 files (2.0 kB) not indexed yet; a refresh is queued"
    [wanted] = seeing.wanted
    assert (wanted.key, wanted.by_query, wanted.session) == (RefreshKey("db", "t", 30.0), True, STOPPED)
    assert wanted.partitions == {(("p", "0"),), (("p", "1"),)}
    assert seeing.lags[0] == pytest.approx(99, abs=2)


def test_each_interval_waits_for_itself() -> None:
    seeing = Seeing()
    told = seeing.seen(found(99), index("1 hour"), index("30 seconds", name="j"), index("30 seconds", name="l"))
    assert told.endswith("; a refresh is queued")
    assert [wanted.key.interval for wanted in seeing.wanted] == [30.0]


def test_a_file_of_the_future_has_no_lag() -> None:
    seeing = Seeing()
    assert seeing.seen(found(-100), index("1 second")) == "1 file (1.0 kB) not indexed yet"
    assert seeing.lags == [0.0]


def test_a_stopped_spark_refreshes_nothing_and_nothing_waits_for_it() -> None:
    seeing = Seeing()
    seeing.seen(found(99), index("1 second"))
    assert seeing.wanted and seeing.refresher.queue.wait(30)


def test_where_files_of_many_partitions_are_new_all_are_looked_at() -> None:
    seeing = Seeing()
    seeing.seen(found(*[99.0] * 1001), index())
    assert [wanted.partitions for wanted in seeing.wanted] == [None]
    assert replace(seeing.wanted[0], partitions=frozenset()).partitions == frozenset()
