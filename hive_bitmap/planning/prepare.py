"""From a request to a plan and what reading by it needs: resolved, snapshot, lookups, plan, each made once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.columns import Column, find
from hive_bitmap.errors import NotFound, StoreError, Undecodable, Unsupported
from hive_bitmap.explaining.plan import BLOCKS, FILES, FULL_SCAN, INDEX_ONLY, STRATEGIES, IndexUse, Plan
from hive_bitmap.formats import FORMATS
from hive_bitmap.formats.key_values import KeyColumn
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.table_schema import key_columns
from hive_bitmap.metastore import file_listing, jvm_reader, metastore, serde
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning import settings
from hive_bitmap.planning import snapshot as snapshots
from hive_bitmap.planning import spark_leaves as spark_answers
from hive_bitmap.planning.count_budget import bytes_to_look_up, index_bytes, over_budget
from hive_bitmap.planning.planner import Question, explain_indexes, full_scan, make_plan
from hive_bitmap.planning.prices import share_of_bytes, too_small, waiting_seconds
from hive_bitmap.planning.request import Request, ResolvedTable
from hive_bitmap.planning.resolving import resolve
from hive_bitmap.planning.snapshot import Snapshot
from hive_bitmap.planning.spark_fallback import left_to_spark
from hive_bitmap.planning.task_probe import require_readable
from hive_bitmap.predicates.nodes import Predicate, Unknown, leaves_of
from hive_bitmap.selecting.candidates import (
    Lookup,
    LookupResults,
    WholeFile,
    choose_indexes,
    evaluate_here,
    knowing,
    look_up,
    look_up_files,
)
from hive_bitmap.selecting.key_matches import Answers
from hive_bitmap.selecting.select import LookupResult
from hive_bitmap.tasks.distribution import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_INDEX_BYTES = 256 << 20  # more index than this is looked up in tasks
DRIVER_STATISTICS_BYTES = 4 << 30  # of more index than this not even the statistics are read in this process
_ASKS_FOR_FILES = re.compile(r"\binput_file_|\b_metadata\b", re.IGNORECASE)
_FILES_ASKED_FOR = "the predicate may ask for the file of a row, which only the table's own reader knows"
_NO_ARROW = re.compile(r"\binterval (year|month)")  # types that no task can give to Spark
MOST_WHOLE_FILES = 500  # more files to be read whole than this are not opened one by one to see if they can be


@dataclass(frozen=True)
class Reading:
    """What the tasks need besides the plan: columns to read, the partitions' values (a row each), Spark's answers."""

    resolved: ResolvedTable
    format: str
    columns: tuple[KeyColumn, ...]
    constants: pa.Table
    answers: Answers
    results: LookupResults


@dataclass(frozen=True)
class Prepared:
    """A plan. `reading` is None where Spark reads all, `snapshot` where it was not needed to tell so."""

    plan: Plan
    reading: Reading | None = None
    snapshot: Snapshot | None = None


def prepare(
    spark: SparkSession, request: Request, resolved: ResolvedTable | None = None, known: Snapshot | None = None
) -> Prepared:
    """Plan a request. `resolved` is its table as Spark's optimizer told it, `known` a snapshot to take over if it fits.

    Raises NotFound for unknown names and InvalidPredicate for a predicate that Spark refuses.
    """
    if request.strategy is not None and request.strategy not in STRATEGIES:
        raise NotFound.of("strategy", request.strategy, STRATEGIES)
    try:
        preparation = _Preparation(spark, request, resolved or resolve(spark, request))
    except (Unsupported, StoreError) as e:
        return _left(request, request.table, e, "unsupported")
    return preparation.prepared(known)


@dataclass(frozen=True)
class _Unserved:
    """Why no index can serve a request: a key of REASONS, and a text."""

    code: str
    reason: str


class _Preparation:
    """One request on its way to a plan."""

    def __init__(self, spark: SparkSession, request: Request, resolved: ResolvedTable) -> None:
        self._spark, self._request, self._resolved, self._base = spark, request, resolved, resolved.base
        self._said = settings.read(resolved.settings)
        self._format = file_listing.format_of(self._base)
        self._keys = _data_keys(request.keys, self._base)
        self._chosen = self._choose()
        self._unserved = self._why_unserved()

    @cached_property
    def _needed(self) -> list[Column]:
        return _needed(self._resolved, self._request)

    def _choose(self) -> dict[str, Definition]:
        """The index that serves each column."""
        usable = [index.definition for index in self._resolved.indexes if not index.why_not]
        chosen = choose_indexes(usable, self._resolved.predicate, self._keys)
        if not self._request.count:
            chosen.pop("", None)
        return chosen

    def prepared(self, known: Snapshot | None) -> Prepared:
        """The plan by cost, or by the strategy that is wanted; a store that fails leaves the request to Spark."""
        wanted = self._request.strategy or self._wanted()
        uses = explain_indexes(
            [(index.definition, index.why_not) for index in self._resolved.indexes],
            self._chosen,
            self._resolved.predicate,
        )
        if self._unserved is not None:
            return self._full_scan(self._unserved.reason, self._unserved.code, _unused(uses, self._unserved.reason))
        if wanted == FULL_SCAN:
            return self._full_scan("it was asked for", "off", _unused(uses, "not wanted"))
        try:
            snapshot = self._snapshot(known)
        except (Unsupported, StoreError) as e:
            return _left(self._request, self._base.full_name, e, "unsupported", uses)
        try:
            prepared = self._by_cost(snapshot, uses, must_pay=self._request.must_pay and wanted is None)
            self._require_readable(prepared)
        except (Unsupported, StoreError) as e:
            return replace(_left(self._request, self._base.full_name, e, "not_selective", uses), snapshot=snapshot)
        if self._request.strategy is not None or wanted in prepared.plan.costs:
            return replace(prepared, plan=_forced(prepared.plan, str(wanted)))
        return prepared

    def _wanted(self) -> str | None:
        return self._said.strategy if self._resolved.native else self._said.strategy_for(self._format)

    def _why_unserved(self) -> _Unserved | None:
        """Why no index can serve; None if one can."""
        indexes, predicate = self._resolved.indexes, self._resolved.predicate
        if not self._said.enabled:
            return _Unserved("off", f"{settings.PREFIX}enabled is false")
        if not indexes:
            return _Unserved("no_index", "the table has no index")
        if missing := [key for key in self._keys if key not in self._chosen]:
            return _Unserved("not_tested", f"no index of type BITMAP has the key {missing[0]}")
        if not self._chosen:
            unusable = "".join(f"; {index.why_not}" for index in indexes if index.why_not)
            code = "no_index" if unusable else _why_untested(predicate)
            return _Unserved(code, f"no index has a column that the predicate tests{unusable}")
        if not self._resolved.planned and _ASKS_FOR_FILES.search(self._request.predicate or ""):
            return _Unserved("unsupported", _FILES_ASKED_FOR)
        if not self._resolved.planned and metastore.is_cached(self._spark, self._base.sql_name):
            return _Unserved("cached", "its rows are in the session's cache")
        doubt = file_listing.why_unsupported(self._resolved.settings, self._base)
        return None if doubt is None else _Unserved("unsupported", doubt)

    def _snapshot(self, known: Snapshot | None) -> Snapshot:
        served = {definition.name for definition in self._chosen.values()}
        if known is not None and known.resolved is self._resolved and served <= known.indexes:
            return known
        indexes = [index for index in self._resolved.indexes if index.definition.name in served]
        return snapshots.take(self._spark, self._resolved, indexes)

    def _by_cost(self, snapshot: Snapshot, uses: tuple[IndexUse, ...], *, must_pay: bool) -> Prepared:
        """The cheapest plan; where it must pay, small tables are not looked up, and few of many partitions at first."""
        size, share = snapshot.bytes, self._share()
        store, native = snapshot.store, self._resolved.native
        cores, files = self._resolved.cores, snapshot.files
        if must_pay and too_small(self._format, int(size * share), cores, native=native, files=files, store=store):
            why_not = f"all of its {size:,} bytes are read in less time than reading through an index takes to start"
            return self._full_scan(why_not, "too_small", uses, snapshot)
        sample = snapshot.sample() if must_pay else None
        if sample is not None:
            reading, question = self._look_up(sample)
            plan = make_plan(replace(question, times=size / max(sample.bytes, 1)), uses, reading.results)
            if plan.strategy == FULL_SCAN:
                why_not = f"in {len(sample.partitions)} of {len(snapshot.partitions)} partitions {plan.reason}"
                return self._full_scan(why_not, "not_selective", uses, snapshot)
        reading, question = self._look_up(snapshot)
        return Prepared(make_plan(question, uses, reading.results), reading, snapshot)

    def _full_scan(
        self, reason: str, code: str, uses: tuple[IndexUse, ...], snapshot: Snapshot | None = None
    ) -> Prepared:
        plan = full_scan(self._base.full_name, self._request.predicate, reason, uses, code)
        return Prepared(plan, None, snapshot)

    def _require_readable(self, prepared: Prepared) -> None:
        """Raises StoreError where tasks of ours would open base files, and cannot."""
        told = self._resolved.native and self._resolved.partitions is not None
        strategy, reading = prepared.plan.strategy, prepared.reading
        by_spark = strategy in (FULL_SCAN, INDEX_ONLY) or (told and strategy in (BLOCKS, FILES))
        path = "" if by_spark or reading is None else _any_file(reading.results)
        if path:
            require_readable(self._spark, self._resolved.settings, path)

    def _look_up(self, snapshot: Snapshot) -> tuple[Reading, Question]:
        request, resolved, base = self._request, self._resolved, self._base
        answers = spark_answers.ask(resolved.evaluate, resolved.predicate, self._chosen, snapshot.partitions)
        waits = waiting_seconds(snapshot.files, resolved.cores, snapshot.store)
        evaluate = _evaluation(self._spark, answers, resolved.cores, self._counted(), waits)
        work = knowing(look_up_files(snapshot.partitions, snapshot.predicates, self._chosen, evaluate), self._keys)
        read = tuple(key_columns([c for c in self._needed if c in base.columns], base.columns, snapshot.zone))
        constants = [c.name for c in self._needed if c not in base.columns]
        typed = snapshot.values
        question = Question(
            base.full_name,
            request.predicate,
            self._format,
            frozenset(column.name.lower() for column in read),
            snapshot.schema_crc,
            resolved.cores,
            request.count,
            _unreadable(self._format, read, work.whole) | _untyped(constants, typed) | _defaulted(self._needed),
            _may_skip_files(self._spark, base, self._needed),
            bool(serde.reading(base)) and jvm_reader.available(self._spark),
            self._said.engine_reads_only,
            self._share(),
            resolved.native,
            snapshot.store,
        )
        kept = [name for name in constants if name in typed.column_names]
        return Reading(resolved, self._format, read, typed.select(kept), answers, work), question

    def _counted(self) -> list[list[str]]:
        """The sets of keys that are counted, where counting has to pay."""
        if not self._request.count or self._request.strategy is not None:
            return []
        return [_data_keys(one, self._base) for one in self._request.grouping_sets or [self._request.keys]]

    def _share(self) -> float:
        """Roughly, what of the bytes of the files is read for the columns that are needed."""
        columns = (*self._base.columns, *self._base.partition_columns)
        return 1.0 if serde.reading(self._base) else share_of_bytes(self._needed, columns)


def _left(
    request: Request, table: str, error: Unsupported | StoreError, code: str, uses: tuple[IndexUse, ...] = ()
) -> Prepared:
    """Spark reads all, for a reason of this code, or because a store fails."""
    code = "store" if isinstance(error, StoreError) else code
    return Prepared(full_scan(table, request.predicate, left_to_spark(error), uses, code))


def _unused(uses: tuple[IndexUse, ...], reason: str) -> tuple[IndexUse, ...]:
    """None of the indexes takes part: for this reason, or for one of its own."""
    return tuple(replace(use, used=False, reason=reason if use.used else use.reason) for use in uses)


def _why_untested(tree: Predicate) -> str:
    return "not_understood" if any(isinstance(leaf, Unknown) for leaf in leaves_of(tree)) else "not_tested"


def _may_skip_files(spark: SparkSession, base: Table, columns: Sequence[Column]) -> bool:
    """Whether Spark can read these columns of some of a table's files, and tasks of ours look at the others."""
    told = not serde.reading(base) and (jvm_reader.available(spark) or base.provider != "hive")
    hidden = any(column.name.lower() == "_metadata" for column in (*base.columns, *base.partition_columns))
    return told and not hidden and not any(_NO_ARROW.search(column.type) for column in columns)


def _data_keys(keys: Sequence[str], base: Table) -> list[str]:
    """The lower-case names of the keys that lie in the files."""
    columns = {column.name.lower() for column in base.columns}
    return [key.lower() for key in keys if key.lower() in columns]


def _needed(resolved: ResolvedTable, request: Request) -> list[Column]:
    """The columns that the request returns or its predicate may mention, in table order; at least one of the files'.

    Those that Spark has found out are all that are needed.
    """
    base = resolved.base
    schema = (*base.columns, *base.partition_columns)
    text = (request.predicate or "").lower()
    names = request.keys if request.count else request.columns
    wanted = schema if names is None else [find(schema, name, f"table {base.full_name}") for name in names]
    told = [] if resolved.planned else schema
    mentioned = [c for c in told if c.name.lower().replace("`", "``") in text or "*" in text]
    chosen = [column for column in schema if column in wanted or column in mentioned]
    return chosen if any(c in base.columns for c in chosen) else [base.columns[0], *chosen]


def _evaluation(
    spark: SparkSession, answers: Answers, cores: int, counted: Sequence[Sequence[str]], waits: float
) -> Callable[[Sequence[Lookup]], list[LookupResult]]:
    """Look up in this process where little index has to be read, else in tasks.

    Where sets of keys are to be `counted`, Unsupported is raised if Spark is quicker at one of them.
    """

    def evaluate(lookups: Sequence[Lookup]) -> list[LookupResult]:
        for keys in counted:
            if slower := over_budget(lookups, answers, keys, cores, waits=waits):
                raise Unsupported(slower)
        total = index_bytes(lookups)
        if total <= DRIVER_INDEX_BYTES or (
            total <= DRIVER_STATISTICS_BYTES and bytes_to_look_up(lookups) <= DRIVER_INDEX_BYTES
        ):
            return evaluate_here(answers)(lookups)
        return in_tasks(spark, lookups, partial(look_up, answers=answers))

    return evaluate


def _any_file(work: LookupResults) -> str:
    """The path of one of the files; "" where there is none."""
    indexed = (path for lookup in work.lookups for path in lookup.unit.paths)
    return next(indexed, "") or next((file.status.path for file in work.whole), "")


def _unreadable(format: str, columns: Sequence[KeyColumn], whole: Sequence[WholeFile]) -> dict[str, str]:
    """The files to be read whole that only the engine can read, each with the reason."""
    if len(whole) > MOST_WHOLE_FILES:
        return {"": f"{len(whole)} files are not indexed as they are now"}
    reasons = {}
    for file in whole:
        try:
            indirect = FORMATS[format].indirect_columns(FORMATS[format].open_file(file.status.path), columns)
            if indirect:
                reasons[file.status.path] = f"only Spark can read {file.status.path}: {next(iter(indirect.values()))}"
        except (Undecodable, FileNotFoundError) as e:
            reasons[file.status.path] = f"only Spark can read {file.status.path}: {e}"
    return reasons


def _untyped(constants: Sequence[str], typed: pa.Table) -> dict[str, str]:
    missing = [name for name in constants if name not in typed.column_names]
    return {"": f"only Spark can read the values of partition column {missing[0]!r}"} if missing else {}


def _defaulted(columns: Sequence[Column]) -> dict[str, str]:
    found = [column.name for column in columns if column.default]
    return {"": f"only Spark knows the default value of column {found[0]!r}"} if found else {}


def _forced(plan: Plan, strategy: str) -> Plan:
    if strategy not in plan.costs:
        raise Unsupported(f"strategy {strategy!r} cannot answer this; possible: {', '.join(plan.costs)}")
    return replace(plan, strategy=strategy, reason="it was asked for")
