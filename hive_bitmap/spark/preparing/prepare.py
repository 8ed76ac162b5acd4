"""Plan a request: resolved table, snapshot, lookup results and plan, each made once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.answering.answer_size import TooLarge, require_small
from hive_bitmap.core.answering.count_budget import COUNT_PRICES, CountCost, bytes_to_look_up, count_cost, index_bytes
from hive_bitmap.core.answering.extremes import are_enough
from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.formats import LAYOUTS
from hive_bitmap.core.formats.key_values import KeyColumn, is_simple
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.table_schema import key_columns
from hive_bitmap.core.memory_budget import BUDGET
from hive_bitmap.core.planning import settings
from hive_bitmap.core.planning.plan import IndexUse, Plan
from hive_bitmap.core.planning.planner import PlanInputs, explain_indexes, full_scan, make_plan
from hive_bitmap.core.planning.prices import share_of_bytes, too_small, waiting_seconds
from hive_bitmap.core.planning.reasons import Reason
from hive_bitmap.core.planning.settings import Settings
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.predicates.nodes import Predicate, Unknown, leaves_of
from hive_bitmap.core.selecting.candidates import (
    Lookup,
    LookupResults,
    WholeFile,
    choose_indexes,
    evaluate_here,
    exact_where_known,
    look_up,
    look_up_files,
)
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.stores.options import memory_bytes
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import StoreError, Unsupported
from hive_bitmap.spark.metastore import file_listing, serde
from hive_bitmap.spark.preparing import snapshot as snapshots
from hive_bitmap.spark.preparing.engine_only import engine_skips, why_unreadable
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.preparing.snapshot import Snapshot
from hive_bitmap.spark.preparing.spark_fallback import fallback_reason
from hive_bitmap.spark.preparing.spark_leaves import evaluate_leaves
from hive_bitmap.spark.preparing.task_probe import require_readable
from hive_bitmap.spark.tasks.distribution import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_INDEX_BYTES = 256 << 20  # more bytes of index than this are looked up in tasks
_PLAIN_TYPE = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|string|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\)"
)
DRIVER_STATISTICS_BYTES = 4 << 30  # of more bytes of index than this, the driver does not even read the statistics


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the tasks need besides the plan.

    `columns` are the data columns to read; `constants` has the partition columns, a row for each partition of the
    results.
    """

    resolved: ResolvedTable
    format: str
    columns: tuple[KeyColumn, ...]
    constants: pa.Table
    results: LookupResults


@dataclass(frozen=True)
class Prepared:
    """A plan. `reading` is None if Spark reads everything, `snapshot` is None if that was clear without one."""

    plan: Plan
    reading: Reading | None = None
    snapshot: Snapshot | None = None


def prepare(spark: SparkSession, request: Request, resolved: ResolvedTable, known: Snapshot | None = None) -> Prepared:
    """Plan a request for a table; `known` is a snapshot of it, used again if it covers the indexes needed."""
    try:
        format = file_listing.format_of(resolved.base)
        preparation = _Preparation(spark=spark, request=request, resolved=resolved, format=format)
        unserved = preparation.why_unserved()
    except (Unsupported, StoreError) as e:
        return _left(request, request.table, e, Reason.UNSUPPORTED)
    BUDGET.resize(memory_bytes(resolved.settings))
    return preparation.prepared(unserved, known)


@dataclass(frozen=True)
class _Unserved:
    """Why no index can serve a request: a code, and a sentence."""

    code: Reason
    reason: str


@dataclass(frozen=True, kw_only=True)
class _Preparation:
    """The planning of one request; what follows from its fields is worked out when it is first needed."""

    spark: SparkSession
    request: Request
    resolved: ResolvedTable
    format: str  # a key of FORMATS

    @cached_property
    def settings(self) -> Settings:
        return settings.read(self.resolved.settings)

    @cached_property
    def keys(self) -> list[str]:
        """The grouping keys that are columns of the files, in lower case."""
        return _data_keys(self.request.keys, self.resolved.base)

    @cached_property
    def needed(self) -> list[Column]:
        return _needed(self.resolved, self.request)

    @cached_property
    def chosen(self) -> dict[str, Definition]:
        """The index that serves each column."""
        usable = [index.definition for index in self.resolved.indexes if not index.why_not]
        chosen = choose_indexes(usable, self.resolved.predicate, self.keys)
        if not self.request.count:
            chosen.pop("", None)
        return chosen

    def prepared(self, unserved: _Unserved | None, known: Snapshot | None) -> Prepared:
        """The plan by cost, or with the forced strategy. A store that fails leaves the request to Spark."""
        wanted = self.settings.strategy
        uses = explain_indexes(
            [(index.definition, index.why_not) for index in self.resolved.indexes],
            self.chosen,
            self.resolved.predicate,
        )
        if unserved is not None:
            return self._full_scan(unserved.reason, unserved.code, _unused(uses, unserved.reason))
        if wanted == Strategy.FULL_SCAN:
            return self._full_scan("it was asked for", Reason.OFF, _unused(uses, "not wanted"))
        try:
            snapshot = self._snapshot(known)
        except (Unsupported, StoreError) as e:
            return _left(self.request, self.resolved.base.full_name, e, Reason.UNSUPPORTED, uses)
        try:
            prepared = self._by_cost(snapshot, uses, must_pay=self.request.must_pay and wanted is None)
            self._require_readable(prepared)
        except (Unsupported, StoreError) as e:
            code = Reason.TOO_LARGE if isinstance(e, TooLarge) else Reason.NOT_SELECTIVE
            return replace(_left(self.request, self.resolved.base.full_name, e, code, uses), snapshot=snapshot)
        if wanted is not None and wanted in prepared.plan.costs:
            return replace(prepared, plan=replace(prepared.plan, strategy=wanted, reason="it was asked for"))
        return prepared

    def why_unserved(self) -> _Unserved | None:
        """Why no index can serve the request; None if one can."""
        indexes, predicate = self.resolved.indexes, self.resolved.predicate
        if not self.settings.enabled:
            return _Unserved(Reason.OFF, f"{settings.PREFIX}enabled is false")
        if not indexes:
            return _Unserved(Reason.NO_INDEX, "the table has no index")
        unusable = "".join(f"; {index.why_not}" for index in indexes if index.why_not)
        if missing := [key for key in self.keys if key not in self.chosen]:
            return _Unserved(Reason.NOT_TESTED, f"no index of type BITMAP has the key {missing[0]}{unusable}")
        if not self.chosen:
            code = Reason.NO_INDEX if unusable else _why_untested(predicate)
            tested = "no index has a column that the predicate tests"
            why = "no condition that can be looked up in an index" if self.request.predicate is None else tested
            return _Unserved(code, f"{why}{unusable}")
        doubt = file_listing.why_unsupported(self.resolved.settings, self.resolved.base)
        return None if doubt is None else _Unserved(Reason.UNSUPPORTED, doubt)

    def _snapshot(self, known: Snapshot | None) -> Snapshot:
        served = {definition.name for definition in self.chosen.values()}
        if known is not None and known.resolved is self.resolved and served <= known.indexes:
            return known
        indexes = [index for index in self.resolved.indexes if index.definition.name in served]
        return snapshots.take(self.spark, self.resolved, indexes)

    def _by_cost(self, snapshot: Snapshot, uses: tuple[IndexUse, ...], *, must_pay: bool) -> Prepared:
        """The cheapest plan.

        With `must_pay`, a small table is not looked up, and of many partitions a sample is looked up first.
        """
        size, share = snapshot.bytes, self._share()
        store, native = snapshot.store, self.resolved.native
        cores, files = self.resolved.cores, snapshot.files
        if must_pay and too_small(self.format, int(size * share), cores, native=native, files=files, store=store):
            why_not = f"all of its {size:,} bytes are read in less time than reading through an index takes to start"
            return self._full_scan(why_not, Reason.TOO_SMALL, uses, snapshot)
        sample = snapshot.sample() if must_pay else None
        if sample is not None:
            reading, inputs = self._look_up(sample)
            plan = make_plan(replace(inputs, scale=size / max(sample.bytes, 1)), uses, reading.results)
            if plan.strategy == Strategy.FULL_SCAN:
                told = plan.without_figures if self.settings.engine_reads_only else plan
                why_not = f"in {len(sample.partitions)} of {len(snapshot.partitions)} partitions {told.reason}"
                return self._full_scan(why_not, Reason.NOT_SELECTIVE, uses, snapshot)
        reading, inputs = self._look_up(snapshot)
        lookups, extremes = reading.results.lookups, self.request.extremes
        counted = [keys for keys in self._key_sets() if not are_enough(lookups, keys, extremes)]
        keys = require_small(reading.results, counted, self.settings.answer_bytes) * COUNT_PRICES.key
        inputs = replace(
            inputs,
            answer_seconds=inputs.answer_seconds + keys,
            spark_count_seconds=inputs.spark_count_seconds + keys,
        )
        return Prepared(make_plan(inputs, uses, reading.results), reading, snapshot)

    def _full_scan(
        self, reason: str, code: Reason, uses: tuple[IndexUse, ...], snapshot: Snapshot | None = None
    ) -> Prepared:
        plan = full_scan(self.resolved.base.full_name, self.request.predicate, reason, uses, code)
        return Prepared(plan, None, snapshot)

    def _require_readable(self, prepared: Prepared) -> None:
        """Raise StoreError if the plan has tasks of ours open base files, and they cannot."""
        resolved = self.resolved
        strategy, reading = prepared.plan.strategy, prepared.reading
        by_spark = not strategy.reads_selected or (resolved.narrows and strategy.is_by_reader)
        path = "" if by_spark or reading is None else _any_file(reading.results)
        if path:
            require_readable(self.spark, self.resolved.settings, path)

    def _look_up(self, snapshot: Snapshot) -> tuple[Reading, PlanInputs]:
        resolved, base = self.resolved, self.resolved.base
        matching_keys = evaluate_leaves(resolved.evaluate, resolved.predicate, self.chosen, snapshot.partitions)
        waits = waiting_seconds(snapshot.files, resolved.cores, snapshot.store)
        cost = partial(
            count_cost,
            matching_keys=matching_keys,
            cores=resolved.cores,
            waits=waits,
            extremes=self.request.extremes,
        )
        sets, forced = self._key_sets(), self.settings.strategy is Strategy.INDEX_ONLY
        evaluate = _Evaluation(self.spark, matching_keys, sets, cost, forced)
        found = look_up_files(snapshot.partitions, snapshot.predicates, self.chosen, evaluate)
        results = replace(exact_where_known(found, self.keys), matching_keys=matching_keys)
        if base.lake is not None:  # files that are not listed may be those that Delta's own statistics exclude
            results = replace(results, deleted=0)
        read = tuple(key_columns([c for c in self.needed if c in base.columns], base.columns, snapshot.zone))
        known = [c.name for c in self.needed if c not in base.columns and c.name in snapshot.values.column_names]
        constants = snapshot.values.select(known)
        reading = Reading(
            resolved=resolved,
            format=self.format,
            columns=read,
            constants=constants,
            results=results,
        )
        inputs = self._inputs(reading, snapshot)
        return reading, replace(inputs, answer_seconds=evaluate.seconds, spark_count_seconds=evaluate.by_spark)

    def _inputs(self, reading: Reading, snapshot: Snapshot) -> PlanInputs:
        read, whole, known = reading.columns, reading.results.whole_files, reading.constants.column_names
        return PlanInputs(
            table=self.resolved.base.full_name,
            predicate=self.request.predicate,
            format=self.format,
            cores=self.resolved.cores,
            columns=frozenset(column.name.lower() for column in read),
            unkeyed=frozenset(column.name.lower() for column in read if not is_simple(column)),
            schemas=snapshot.schemas,
            count=self.request.count,
            unreadable=self._unreadable(read, whole, known),
            engine_skips=engine_skips(self.resolved),
            engine_reads_only=self.settings.engine_reads_only,
            share=self._share(),
            store=snapshot.store,
            driver_read_bytes=self.settings.driver_read_bytes if self._is_read_here() else 0,
        )

    def _unreadable(
        self, read: Sequence[KeyColumn], whole: Sequence[WholeFile], known: Sequence[str]
    ) -> dict[str, str]:
        """Why tasks of ours cannot read some of the files. What is not known of a lake table's counts, Spark counts."""
        lake = self.resolved.base.lake
        if lake is None:
            return why_unreadable(self.format, read, whole, self.needed, known)
        return {} if self.request.count else {"": f"the rows of a {lake.kind} table are read by its own reader"}

    def _is_read_here(self) -> bool:
        """Whether this process can read rows and hand them to Spark, by format and types; not those of a lake table."""
        if self.resolved.base.lake is not None:
            return False
        return self.format not in LAYOUTS and all(_PLAIN_TYPE.fullmatch(column.type) for column in self.needed)

    def _key_sets(self) -> list[list[str]]:
        """The sets of keys by which rows are counted; none if rows are read."""
        if not self.request.count:
            return []
        return [_data_keys(one, self.resolved.base) for one in self.request.grouping_sets or [self.request.keys]]

    def _share(self) -> float:
        """Roughly, the share of the files' bytes that the needed columns take."""
        columns = (*self.resolved.base.columns, *self.resolved.base.partition_columns)
        return 1.0 if serde.read_properties(self.resolved.base) else share_of_bytes(self.needed, columns)


def _left(
    request: Request, table: str, error: Unsupported | StoreError, code: Reason, uses: tuple[IndexUse, ...] = ()
) -> Prepared:
    """A full scan, for a reason with this code, or because a store fails."""
    code = Reason.STORE if isinstance(error, StoreError) else code
    return Prepared(full_scan(table, request.predicate, fallback_reason(error), uses, code))


def _unused(uses: tuple[IndexUse, ...], reason: str) -> tuple[IndexUse, ...]:
    """The same indexes as not used: for their own reason, or for this one."""
    return tuple(replace(use, used=False, reason=reason if use.used else use.reason) for use in uses)


def _why_untested(tree: Predicate) -> Reason:
    return Reason.NOT_UNDERSTOOD if any(isinstance(leaf, Unknown) for leaf in leaves_of(tree)) else Reason.NOT_TESTED


def _data_keys(keys: Sequence[str], base: Table) -> list[str]:
    """The names, in lower case, of those keys that are data columns and not partition columns."""
    columns = {column.name.lower() for column in base.columns}
    return [key.lower() for key in keys if key.lower() in columns]


def _needed(resolved: ResolvedTable, request: Request) -> list[Column]:
    """The columns that Spark needs of the request, in table order, with at least one data column."""
    base = resolved.base
    schema = (*base.columns, *base.partition_columns)
    names = request.keys if request.count else request.columns
    wanted = [find(schema, name, f"table {base.full_name}") for name in names]
    chosen = [column for column in schema if column in wanted]
    return chosen if any(c in base.columns for c in chosen) else [base.columns[0], *chosen]


@dataclass
class _Evaluation:
    """Looks up: in this process if little of the index has to be read, else in tasks.

    If rows are counted by `key_sets`, their `cost` is compared first; unless the answer is `forced`, Unsupported is
    raised if Spark is quicker at one of them. `seconds` and `by_spark` are what the index and Spark take for all.
    """

    spark: SparkSession
    matching_keys: MatchingKeys
    key_sets: Sequence[Sequence[str]]
    cost: Callable[..., CountCost]
    forced: bool
    seconds: float = COUNT_PRICES.answer_start
    by_spark: float = COUNT_PRICES.spark_start

    def __call__(self, lookups: Sequence[Lookup]) -> list[LookupResult]:
        for keys in self.key_sets:
            cost = self.cost(lookups, keys=keys)
            if cost.why_slower is not None and not self.forced:
                raise Unsupported(cost.why_slower)
            self.seconds += cost.seconds
            self.by_spark += cost.by_spark - COUNT_PRICES.spark_start
        total = index_bytes(lookups)
        if total <= DRIVER_INDEX_BYTES or (
            total <= DRIVER_STATISTICS_BYTES and bytes_to_look_up(lookups) <= DRIVER_INDEX_BYTES
        ):
            return evaluate_here(self.matching_keys)(lookups)
        return in_tasks(self.spark, lookups, partial(look_up, matching_keys=self.matching_keys))


def _any_file(work: LookupResults) -> str:
    """The path of any of the files; "" if there is none."""
    indexed = (path for lookup in work.lookups for path in lookup.unit.paths)
    return next(indexed, "") or next((file.status.path for file in work.whole_files), "")
