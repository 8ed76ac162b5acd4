"""Counts of the index alone: which it can give together, and what is left to Spark when they are executed."""

from __future__ import annotations

import gc
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.listings.scan_listing import ScanListing
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.predicates.nodes import TRUE, Compare
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile, look_up
from hive_bitmap.core.selecting.lookup_units import IndexPart
from hive_bitmap.core.selecting.table_files import PartitionState
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.catalyst import execution
from hive_bitmap.spark.catalyst.decision import ANSWERED, Counts, Report
from hive_bitmap.spark.catalyst.execution import counts, is_countable_together, number_of_rows
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.reading.file_set import FileSet
from tests.core.planning.test_planner import looked_up
from tests.core.selecting.test_select import unit_of
from tests.spark.reading.test_read_task import lookup_now, rows

NOBODY: Any = None  # in place of a session
K, S, P = Column("k", "int"), Column("S", "string"), Column("p", "int")
BASE = Table(database="db", name="t", kind="MANAGED", columns=(K, S), partition_columns=(P,))
PLAN = Plan(table="db.t", predicate=None, strategy=Strategy.INDEX_ONLY, reason="")
RESOLVED = ResolvedTable(base=BASE, indexes=(), conf={}, predicate=TRUE, cores=2)
REQUEST = Request(table="db.t", predicate=None, columns=(), count=True, grouping_sets=((),))


def prepared(work: LookupResults | None, **request: Any) -> Prepared:
    return Prepared(plan=PLAN, request=replace(REQUEST, **request), resolved=RESOLVED, format="parquet", results=work)


def served(work: LookupResults, *columns: str) -> LookupResults:
    """The same, of files that an index of each of these columns knows."""
    lookups = []
    for lookup in work.lookups:
        files = np.arange(len(lookup.unit.paths))
        parts = {
            name: IndexPart(index=name, key=pa.field(name, pa.int32()), encoding="gap", shards=(), files=files)
            for name in columns
        }
        lookups.append(replace(lookup, unit=replace(lookup.unit, parts=parts)))
    return replace(work, lookups=tuple(lookups))


def with_whole_file(work: LookupResults) -> LookupResults:
    return replace(work, whole_files=(WholeFile(0, FileStatus("file:/w/new", 5, 1, ""), Freshness.UNINDEXED, ""),))


EXACT, MATCHES = looked_up([5, 0]), looked_up([5, 0], exact=False)
NO_MATCH = looked_up([0, 0], exact=False)  # nothing of it is counted, so it need not be exact


@pytest.mark.parametrize(
    ("work", "key_sets", "countable"),
    [
        (None, [()], False),
        (EXACT, [()], True),
        (MATCHES, [()], False),
        (NO_MATCH, [()], True),
        (served(EXACT, "k"), [("k",)], True),
        (served(EXACT, "k"), [("K",), ("k",)], True),
        (EXACT, [("k",)], True),  # no index has the key: the files are read, and nothing of the unit is counted
        (EXACT, [("p",)], False),  # the values of a partition column are not known
        (with_whole_file(EXACT), [()], True),  # Spark counts that file
        (with_whole_file(EXACT), [(), ("k",)], False),  # of several key sets it would be counted by each
        (looked_up([5, 0], damaged=(0,)), [()], True),
    ],
)
def test_counts_that_the_index_alone_can_give(
    work: LookupResults | None, key_sets: list[tuple[str, ...]], countable: bool
) -> None:
    if work is not None and any(work.results[0].damaged):
        work = replace(work, results=(replace(work.results[0], exact=np.array([True])),))
    assert is_countable_together(prepared(work, grouping_sets=tuple(key_sets))) is countable


def test_partition_columns_are_keys_if_their_values_are_known() -> None:
    found = prepared(EXACT, grouping_sets=(("P",),))
    assert is_countable_together(replace(found, constants=pa.table({"p": ["x"]})))


def answer(work: LookupResults | None, listing: Any = None, **request: Any) -> Counts:
    return Counts(
        report=Report(table="db.t", action=ANSWERED),
        prepared=prepared(work, **request),
        source="",
        listing=listing,
    )


def real(folder: Path) -> LookupResults:
    """What an index on k says of k = 1 in real files, of which two rows match."""
    unit = unit_of(folder, [rows(1, 2, 1), rows(3)], {"k": "gap"}, {"k": [0, 1]})
    lookup = lookup_now(unit, Compare("k", "=", 1))
    found = look_up(lookup, {})
    partition = PartitionState(name="", values=(), files=())
    return replace(EXACT, partitions=(partition,), lookups=(lookup,), results=(found,), deleted=0)


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution.session_settings, "use_stores", lambda spark: None)


def test_rows_are_counted_at_once_by_what_was_prepared(tmp_path: Path) -> None:
    work = real(tmp_path)
    assert number_of_rows(NOBODY, answer(work)) == 2
    of_key = answer(work, grouping_sets=(("k",),), keys=("k",))
    assert number_of_rows(NOBODY, of_key) is None  # not the rows of a key


@pytest.mark.parametrize(
    "asked",
    [
        answer(None),
        answer(EXACT, grouping_sets=(("k",),), keys=("k",)),
        answer(EXACT, grouping_sets=((), ("k",))),
        answer(with_whole_file(EXACT)),  # of which only Spark knows
    ],
)
def test_spark_executes_the_aggregation_where_more_is_asked_or_less_is_known(asked: Counts) -> None:
    assert number_of_rows(NOBODY, asked) is None


def test_files_of_a_store_are_listed_again_with_their_tags(tmp_path: Path) -> None:
    listing, work = ScanListing(()), real(tmp_path)
    [lookup] = work.lookups
    remote = replace(work, lookups=(replace(lookup, unit=replace(lookup.unit, paths=("s3a://b/0", "s3a://b/1"))),))
    assert number_of_rows(NOBODY, answer(work, weakref.ref(listing))) == 2
    assert number_of_rows(NOBODY, answer(remote, weakref.ref(listing))) is None


def listed(folder: Path) -> ScanListing:
    files = [stores.status(f"file:{folder}/{number}.parquet") for number in range(2)]
    return ScanListing((((), tuple(replace(file, etag="") for file in files)),))  # as Spark lists them


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        ("nothing", (2, [])),
        ("the time of the file with matches", (0, [0])),
        ("the time of the other file", (2, [1])),  # it may have matches by now
        ("the content, with equal size and time", (0, [0])),
        ("a file is gone", None),
    ],
)
def test_what_was_planned_is_counted_but_for_changed_files(
    tmp_path: Path, change: str, counted: tuple[int, list[int]] | None
) -> None:
    work = real(tmp_path)
    listing = listed(tmp_path)
    first, other = (tmp_path / f"{number}.parquet" for number in range(2))
    before = first.stat()
    match change:
        case "the time of the file with matches":
            os.utime(first, (1, 1))
        case "the time of the other file":
            os.utime(other, (1, 1))
        case "the content, with equal size and time":
            content = first.read_bytes()
            first.write_bytes(content[:-9] + bytes(9))
            os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "a file is gone":
            other.unlink()
    found = counts(NOBODY, answer(work, weakref.ref(listing)))
    if counted is None:
        assert found is None
        return
    assert found is not None
    [table], unknown = found
    assert (sum(table["count"].to_pylist()), unknown) == counted


def test_a_file_that_was_empty_is_sparks_once_it_has_rows(tmp_path: Path) -> None:
    """No index names an empty file, and none is looked up in it."""
    work = real(tmp_path)
    new = tmp_path / "2.parquet"
    new.touch()
    [(values, files)] = listed(tmp_path).partitions
    listing = ScanListing(((values, (*files, replace(stores.status(f"file:{new}"), etag=""))),))
    asked = answer(work, weakref.ref(listing))
    assert counts(NOBODY, asked) is not None and counts(NOBODY, asked)[1] == []  # type: ignore[index]
    new.write_bytes(b"rows")
    assert counts(NOBODY, asked)[1] == [2]  # type: ignore[index]


@pytest.mark.parametrize("is_current", [True, False])
def test_files_that_planning_has_listed_are_compared(tmp_path: Path, is_current: bool) -> None:
    class Files(FileSet):
        def is_current(self, spark: Any) -> bool:
            return is_current

    found = counts(NOBODY, replace(answer(real(tmp_path)), files=Files(base=BASE)))
    assert (found is not None) is is_current


def test_counts_whose_listing_was_evicted_are_sparks() -> None:
    listing = ScanListing(())
    asked = answer(EXACT, weakref.ref(listing))
    del listing
    gc.collect()
    assert counts(NOBODY, asked) is None
