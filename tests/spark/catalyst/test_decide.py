"""What is decided on a scan, as a table of cases: no Spark, no file, no index; plans are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import Aggregate, Measure
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.listings.scan_listing import ScanListing
from hive_bitmap.core.planning.plan import IndexUse, Plan
from hive_bitmap.core.planning.strategy import STRATEGIES, Strategy
from hive_bitmap.core.predicates.nodes import And, Compare, In
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.selecting.first_rows import FirstRows
from hive_bitmap.core.selecting.split_order import pieces_in_order
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.spark.catalyst.decide import decide, indexed_table, left_alone
from hive_bitmap.spark.catalyst.decision import (
    Counts,
    Decision,
    Empty,
    FetchPart,
    FramePart,
    Lasting,
    LeaveAlone,
    ReadChoices,
    ReadRows,
)
from hive_bitmap.spark.catalyst.question import Question
from hive_bitmap.spark.catalyst.scans import ListingSummary, RuntimeFilter, Scan, Sums
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.request import Request
from hive_bitmap.spark.registry.catalog import Index
from tests.core.planning.test_planner import looked_up

TABLE = Table(
    database="db",
    name="t",
    kind="MANAGED",
    provider="parquet",
    columns=(Column("k", "int"), Column("id", "bigint")),
    location="file:/w/t",
)
INDEX = Index(definition=Definition(name="by_k", database="db", table="t", columns=TABLE.columns[:1]), table=TABLE)
SCAN = Scan(
    number=0,
    database="db",
    table="t",
    version="v",
    condition="k = 3",
    tree=["compare", "k", "=", "3"],
    columns=("k", "id"),
    indexed_known=True,
    native=True,
    ordered=False,
    key_sets=(),
    unanswered=None,
    runtime_filters=(),
    listed=ListingSummary(10**10, 1, "digest"),
    cores=2,
    options=(),
    strategy=None,
)
LISTING = ScanListing((((), (FileStatus("file:/w/t/1.parquet", 10**10, 0, ""),)),))
COUNTED = replace(SCAN, key_sets=(("k",),))
FRAME: Any = object()
NOBODY: Any = None  # in place of a session and of the JVM
NO_RESULTS = LookupResults(partitions=(), lookups=(), results=(), whole_files=(), deleted=0)


def plan(strategy: str, code: str = "", reason: str = "because", **figures: Any) -> Plan:
    uses = (
        IndexUse(name="by_k", columns=("k",), encoding="gap", used=True, reason=""),
        IndexUse(name="other", columns=("id",), encoding="gap", used=False, reason=""),
    )
    return Plan(
        table="db.t",
        predicate="k = 3",
        strategy=strategy,
        reason=reason,
        indexes=uses,
        code=code,
        costs={strategy: 0.5},
        **figures,
    )


@dataclass
class World:
    """What can be asked, and what was: `plans` by whether counts were wanted."""

    plans: dict[bool, Plan | Exception] = field(default_factory=dict)
    unbounded: Plan | None = None
    small_side: Sequence[Any] | None = None
    frame: Callable[[], Any] = lambda: FRAME
    indexes: tuple[Index, ...] = (INDEX,)
    conf: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    predicates: list[Any] = field(default_factory=list)
    split_bytes: int | None = None

    def decide(self, scan: Scan) -> Decision:
        question = Asked(spark=NOBODY, jvm=NOBODY, scan=scan, world=self)
        table = indexed_table(scan, TABLE, self.indexes, self.conf)
        return left_alone(scan, table) or decide(question, table)

    def prepare(self, request: Request, resolved: Any) -> Prepared:
        self.requests.append(request)
        self.predicates.append(resolved.predicate)
        planned = self.plans[request.count]
        if isinstance(planned, Exception):
            raise planned
        results = looked_up([1, 0]) if planned.strategy == Strategy.ROWS else NO_RESULTS
        self.split_bytes = resolved.split_bytes
        prepared = Prepared(plan=planned, request=request, resolved=resolved)
        if planned.strategy == Strategy.FULL_SCAN:
            return prepared
        pieces = None if resolved.split_bytes is None else pieces_in_order(results, "parquet", resolved.split_bytes)
        unbounded = None
        if self.unbounded is not None:
            unbounded = replace(prepared, plan=self.unbounded, results=NO_RESULTS, pieces=())
        return replace(prepared, results=results, pieces=pieces, unbounded=unbounded)


@dataclass(kw_only=True, eq=False)
class Asked(Question):
    """A question that a world answers in place of the JVM."""

    world: World

    @cached_property
    def listing(self) -> ScanListing | None:
        return None if self.scan.listed is None else LISTING

    def small_side(self, filter: int) -> Sequence[Any] | None:
        return self.world.small_side

    def prepare(self, request: Request, resolved: Any, earlier: Any) -> Prepared:
        return self.world.prepare(request, resolved)

    def rows(self, prepared: Prepared, pieces: Any) -> Any:
        return self.world.frame()


def told(outcome: Decision) -> tuple[str, str, str]:
    return outcome.report.action, outcome.report.reason or "", outcome.report.detail


@pytest.mark.parametrize("strategy", [Strategy.FILES, Strategy.BLOCKS])
def test_sparks_own_reader_is_given_files_and_blocks(strategy: str) -> None:
    outcome = World({False: plan(strategy)}).decide(SCAN)
    assert isinstance(outcome, ReadChoices) and outcome.choices == ""
    assert told(outcome) == ("narrowed", "", "because")
    assert (outcome.report.table, outcome.report.condition, outcome.report.strategy) == ("db.t", "k = 3", strategy)
    assert outcome.report.costs == {strategy: 0.5}


@pytest.mark.parametrize(
    ("scan", "strategy"),
    [
        (SCAN, Strategy.ROWS),
        (replace(SCAN, native=False), Strategy.BLOCKS),
        (replace(SCAN, listed=None), Strategy.FILES),
    ],
)
def test_tasks_of_ours_read_rows_and_what_sparks_reader_cannot_be_given(scan: Scan, strategy: str) -> None:
    figures = {"rows_selected": 5, "rows_total": 100, "bytes_total": 1000, "blocks_total": 3}
    outcome = World({False: plan(strategy, **figures)}).decide(scan)
    assert isinstance(outcome, ReadRows)
    assert (outcome.parts, outcome.size, told(outcome)) == ((FramePart(FRAME),), 50, ("narrowed", "", "because"))


@pytest.mark.parametrize(
    ("ordered", "told", "wanted"), [(False, 4096, 0), (False, 0, 0), (True, 4096, 4096), (True, 0, None)]
)
def test_splits_matter_where_the_query_sees_the_order(ordered: bool, told: int, wanted: int | None) -> None:
    world = World({False: plan(Strategy.FULL_SCAN, "not_selective")})
    outcome = world.decide(replace(SCAN, ordered=ordered, listed=ListingSummary(10**10, 1, "digest", told)))
    assert world.split_bytes == wanted
    assert isinstance(outcome, LeaveAlone)
    assert outcome.lasting == (Lasting.NO if wanted is None else Lasting.FOR_CONDITION)


@pytest.mark.parametrize("is_read_here", [True, False])
def test_all_blocks_are_read_unless_this_process_reads_the_needed_ones(
    monkeypatch: pytest.MonkeyPatch, is_read_here: bool
) -> None:
    fetch = FetchPart(plan=plan(Strategy.ROWS), columns=(), tasks=(), most=0)
    monkeypatch.setattr(
        "hive_bitmap.spark.catalyst.driver_rows.fetch_of", lambda *given: fetch if is_read_here else None
    )
    world = World({False: plan(Strategy.ROWS)}, unbounded=plan(Strategy.BLOCKS))
    outcome = world.decide(replace(SCAN, first=FirstRows(column="k", ascending=True, nulls_first=True, rows=3)))
    assert len(world.requests) == 1 and isinstance(outcome, ReadRows if is_read_here else ReadChoices)


def test_rows_that_spark_reads_after_all() -> None:
    def refused() -> Any:
        raise Unsupported("no tasks here")

    assert told(World({False: plan(Strategy.BLOCKS)}, frame=lambda: None).decide(replace(SCAN, native=False))) == (
        "left alone",
        "not_selective",
        "because",
    )
    assert told(World({False: plan(Strategy.ROWS)}, frame=refused).decide(SCAN)) == (
        "left alone",
        "unsupported",
        "no tasks here",
    )


@pytest.mark.parametrize(
    ("planned", "reason"),
    [
        (plan(Strategy.FULL_SCAN), "not_selective"),
        (plan(Strategy.FULL_SCAN, "not_tested"), "not_tested"),
        (plan(Strategy.FULL_SCAN, "store"), "store"),
    ],
)
def test_a_full_scan_is_sparks(planned: Plan, reason: str) -> None:
    assert told(World({False: planned}).decide(SCAN)) == ("left alone", reason, "because")


def test_what_no_plan_is_made_for() -> None:
    assert told(World(indexes=()).decide(SCAN)) == ("left alone", "no_index", "the table has no index")
    with_option = replace(SCAN, options=("modifiedAfter",))
    assert told(World().decide(with_option))[:2] == ("left alone", "unsupported")


def test_a_small_scan_is_left_alone_unless_its_aggregation_may_be_answered() -> None:
    small = replace(SCAN, listed=ListingSummary(1000, 1, "digest"))
    outcome = World().decide(small)
    assert isinstance(outcome, LeaveAlone) and outcome.lasting == Lasting.FOR_TABLE and told(outcome)[1] == "too_small"
    world = World({True: plan(Strategy.FULL_SCAN)})
    outcome = world.decide(replace(small, key_sets=(("k",),)))  # which depends on the indexes, and on the condition
    assert isinstance(outcome, LeaveAlone) and outcome.lasting == Lasting.FOR_CONDITION and len(world.requests) == 1
    assert isinstance(World({True: plan(Strategy.INDEX_ONLY)}).decide(replace(small, key_sets=(("k",),))), Counts)


@pytest.mark.parametrize("tree", [["constant", False], ["constant", None], ["and", SCAN.tree, ["constant", False]]])
def test_a_condition_that_nothing_satisfies(tree: Sequence[Any]) -> None:
    outcome = World().decide(replace(SCAN, tree=tree))
    assert isinstance(outcome, Empty)
    assert told(outcome) == ("narrowed", "", "no row satisfies the condition")
    assert (outcome.report.blocks_selected, outcome.report.blocks_total) == (0, None)


def test_counts_are_asked_for_all_key_sets_together() -> None:
    world = World({True: plan(Strategy.INDEX_ONLY)})
    outcome = world.decide(replace(SCAN, key_sets=(("k",), ("k", "id"), ())))
    assert isinstance(outcome, Counts) and told(outcome) == ("answered", "", "because")
    assert outcome.source == "db.t by by_k"
    [request] = world.requests
    assert (request.keys, request.grouping_sets) == (("k", "id"), (("k",), ("k", "id"), ()))
    assert (request.count, outcome.prepared.request) == (True, request)


@pytest.mark.parametrize(
    ("counted", "rows", "action", "reason", "detail"),
    [
        (plan(Strategy.FULL_SCAN, "store", "down"), plan(Strategy.BLOCKS), "left alone", "store", "down"),
        (plan(Strategy.FULL_SCAN, "too_large", "many keys"), plan(Strategy.BLOCKS), "narrowed", "", "because"),
        (
            plan(Strategy.FULL_SCAN, "too_large", "many keys"),
            plan(Strategy.FULL_SCAN),
            "left alone",
            "too_large",
            "many keys; because",
        ),
        (plan(Strategy.FULL_SCAN, "", "dear"), plan(Strategy.FULL_SCAN), "left alone", "not_selective", "because"),
        (
            plan(Strategy.FULL_SCAN, "", "dear"),
            plan(Strategy.FULL_SCAN, "not_tested"),
            "left alone",
            "not_tested",
            "dear; because",
        ),
        (NotFound("no such column"), plan(Strategy.FILES), "narrowed", "", "because"),
    ],
)
def test_an_aggregation_that_is_not_answered(
    counted: Plan | Exception, rows: Plan, action: str, reason: str, detail: str
) -> None:
    assert told(World({True: counted, False: rows}).decide(COUNTED)) == (action, reason, detail)


def test_sums_are_asked_for_before_keys_are_counted() -> None:
    """Only for a sum, or if an index holds aggregates at all: otherwise nothing is asked for in vain."""
    total, largest = (Measure(column="id", functions=functions) for functions in (("sum", "count"), ("count", "max")))
    scan = replace(COUNTED, sums=Sums(("k",), (total,)))
    answered = World({True: plan(Strategy.INDEX_ONLY)})
    outcome = answered.decide(scan)
    assert isinstance(outcome, Counts) and outcome.sums == scan.sums
    [request] = answered.requests
    assert (request.keys, request.grouping_sets, request.measures) == (("k",), (("k",),), (total,))
    refused = World({True: plan(Strategy.FULL_SCAN, "not_tested"), False: plan(Strategy.FULL_SCAN, "not_tested")})
    assert told(refused.decide(scan)) == ("left alone", "not_tested", "because")
    assert [request.measures for request in refused.requests] == [(total,), (), ()]
    held = replace(INDEX.definition, aggregates=(Aggregate("count"),))
    for indexes, asked in (((INDEX,), 0), ((replace(INDEX, definition=held),), 1)):
        world = World({True: plan(Strategy.INDEX_ONLY)}, indexes=indexes)
        world.decide(replace(scan, sums=Sums(("k",), (largest,))))
        assert [len(request.measures) for request in world.requests] == [asked]


def test_why_spark_cannot_be_answered_is_told_where_nothing_else_was_asked_for() -> None:
    scan = replace(SCAN, unanswered="median is not counted", condition="", tree=["constant", True])
    outcome = World({False: plan(Strategy.FULL_SCAN, "not_tested")}).decide(scan)
    assert told(outcome) == ("left alone", "not_counted", "median is not counted")


@pytest.mark.parametrize(("chosen", "must_pay"), [(None, True), *((one, False) for one in STRATEGIES)])
def test_a_chosen_strategy_need_not_pay(chosen: str | None, must_pay: bool) -> None:
    for world, scan in [
        (World({False: plan(Strategy.BLOCKS)}), replace(SCAN, strategy=chosen)),
        (World({False: plan(Strategy.BLOCKS)}, conf={} if chosen is None else {"hive_bitmap.strategy": chosen}), SCAN),
    ]:
        world.decide(scan)
        assert [request.must_pay for request in world.requests] == [must_pay]


def test_a_runtime_filter_is_a_condition_like_others() -> None:
    scan = replace(SCAN, runtime_filters=(RuntimeFilter("k", 1000),))
    world = World({False: plan(Strategy.BLOCKS)}, small_side=["in", "k", "1", "2"])
    world.decide(scan)
    assert world.predicates == [And((Compare("k", "=", 3), In("k", (1, 2))))]
    without = World({False: plan(Strategy.BLOCKS)}, small_side=None)
    without.decide(scan)
    assert without.predicates == [Compare("k", "=", 3)]


def test_a_join_whose_keys_are_not_selective_is_not_tried_again_at_once() -> None:
    scan = replace(SCAN, runtime_filters=(RuntimeFilter("k", 1000),))
    outcome = World({False: plan(Strategy.FULL_SCAN)}, small_side=["in", "k", "1", "2"]).decide(scan)
    assert isinstance(outcome, LeaveAlone) and outcome.lasting == Lasting.FOR_CONDITION


def test_no_figures_are_told_where_only_spark_may_read() -> None:
    world = World({False: plan(Strategy.BLOCKS, rows_selected=7)}, conf={"hive_bitmap.engine_reads_only": "true"})
    outcome = world.decide(SCAN)
    assert isinstance(outcome, ReadChoices)
    assert outcome.report.plan is not None and outcome.report.plan.rows_selected is None
    assert outcome.report.costs == {}
