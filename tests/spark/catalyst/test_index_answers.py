"""Answers of the index alone: which counts it can give together, and when Spark aggregates instead."""

from __future__ import annotations

import gc
import os
import time
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
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.catalyst import index_answers
from hive_bitmap.spark.catalyst.conditions import Condition
from hive_bitmap.spark.catalyst.index_answers import Answer, is_countable_together
from hive_bitmap.spark.preparing.prepare import Prepared, Reading
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.registry.catalog import INDEX_CACHE_SECONDS
from tests.core.planning.test_planner import looked_up
from tests.core.selecting.test_select import unit_of
from tests.spark.reading.test_read_task import lookup_now, rows

NOBODY: Any = None  # in place of a session
K, S, P = Column("k", "int"), Column("S", "string"), Column("p", "int")
BASE = Table(database="db", name="t", kind="MANAGED", columns=(K, S), partition_columns=(P,))
PLAN = Plan(table="db.t", predicate=None, strategy=Strategy.INDEX_ONLY, reason="")
RESOLVED = ResolvedTable(base=BASE, indexes=(), settings={}, predicate=TRUE, evaluate=lambda *given: None, cores=2)
REQUEST = Request(table="db.t", predicate=None, columns=(), count=True, grouping_sets=((),))


def prepared(work: LookupResults | None) -> Prepared:
    if work is None:
        return Prepared(PLAN)
    return Prepared(
        PLAN, Reading(resolved=RESOLVED, format="parquet", columns=(), constants=pa.table({}), results=work)
    )


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
    assert is_countable_together(prepared(work), key_sets) is countable


def test_partition_columns_are_keys_if_their_values_are_known() -> None:
    found = prepared(EXACT)
    assert found.reading is not None
    typed = replace(found.reading, constants=pa.table({"p": ["x"]}))
    assert is_countable_together(replace(found, reading=typed), [("P",)])


def answer(work: LookupResults | None, listing: Any = None, **request: Any) -> Answer:
    return Answer(
        request=replace(REQUEST, **request),
        base=BASE,
        condition=Condition(TRUE, {}),
        listing=listing,
        cores=2,
        prepared=None if work is None else prepared(work),
    )


def real(folder: Path) -> LookupResults:
    """What an index on k says of k = 1 in real files, of which two rows match."""
    unit = unit_of(folder, [rows(1, 2, 1), rows(3)], {"k": "gap"}, {"k": [0, 1]})
    lookup = lookup_now(unit, Compare("k", "=", 1))
    found = look_up(lookup, {})
    return replace(EXACT, lookups=(lookup,), results=(found,), deleted=0)


def test_rows_are_counted_at_once_by_what_was_prepared(tmp_path: Path) -> None:
    work = real(tmp_path)
    assert answer(work).number_of_rows(NOBODY) == 2
    assert answer(work, grouping_sets=(("k",),), keys=("k",)).number_of_rows(NOBODY) is None  # not the rows of a key


@pytest.mark.parametrize(
    "asked",
    [
        answer(None),
        answer(EXACT, grouping_sets=(("k",),), keys=("k",)),
        answer(EXACT, grouping_sets=((), ("k",))),
        answer(with_whole_file(EXACT)),  # of which only Spark knows
    ],
)
def test_spark_executes_the_aggregation_where_more_is_asked_or_less_is_known(asked: Answer) -> None:
    assert asked.number_of_rows(NOBODY) is None


def test_files_of_a_store_are_listed_again_with_their_tags(tmp_path: Path) -> None:
    listing, work = ScanListing(()), real(tmp_path)
    [lookup] = work.lookups
    remote = replace(work, lookups=(replace(lookup, unit=replace(lookup.unit, paths=("s3a://b/0", "s3a://b/1"))),))
    assert answer(work, weakref.ref(listing)).number_of_rows(NOBODY) == 2
    assert answer(remote, weakref.ref(listing)).number_of_rows(NOBODY) is None


class PreparedAgain(Exception):
    """What was looked up to plan a query is looked up again."""


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers find no index in the metastore, and raise PreparedAgain if they prepare again."""

    def prepared_again(*given: Any) -> None:
        raise PreparedAgain

    monkeypatch.setattr(index_answers, "prepare", prepared_again)
    monkeypatch.setattr(index_answers.catalog, "indexes_on", lambda *given: [])


def listed(folder: Path) -> ScanListing:
    files = [stores.status(f"file:{folder}/{number}.parquet") for number in range(2)]
    return ScanListing((((), tuple(replace(file, etag="") for file in files)),))  # as Spark lists them


@pytest.mark.parametrize("changed", ["", "file", "settings", "indexes", "age"])
@pytest.mark.usefixtures("no_session")
def test_what_was_planned_is_counted_if_nothing_has_changed_since(
    tmp_path: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = real(tmp_path)
    listing = listed(tmp_path)
    asked = answer(work, weakref.ref(listing))
    settings = {"hive_bitmap.strategy": "rows"} if changed == "settings" else {}
    if changed == "file":
        os.utime(tmp_path / "0.parquet", (1, 1))
    if changed == "indexes":
        monkeypatch.setattr(index_answers.catalog, "indexes_on", lambda *given: ["another"])
    if changed == "age":
        asked = replace(asked, planned_at=time.monotonic() - 2 * INDEX_CACHE_SECONDS)
    if changed:
        with pytest.raises(PreparedAgain):
            asked.counts(NOBODY, NOBODY, settings)
        return
    found = asked.counts(NOBODY, NOBODY, settings)
    assert found is not None
    [table], unknown = found
    assert table["count"].to_pylist() == [2] and not unknown


def test_an_answer_whose_listing_was_evicted_is_sparks() -> None:
    listing = ScanListing(())
    asked = answer(EXACT, weakref.ref(listing))
    del listing
    gc.collect()
    assert asked.counts(NOBODY, NOBODY, {}) is None
