"""From a session, a table and a predicate's text to a plan and what reading by it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap import stores
from hive_bitmap.columns import Column, find
from hive_bitmap.errors import InvalidPredicate, NotFound, StoreError, Undecodable, Unsupported
from hive_bitmap.formats import FORMATS
from hive_bitmap.formats.columns import KeyColumn
from hive_bitmap.index import catalog, listing, metastore, metastore_jvm, serde, sources
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.definition import Definition, schema_crc
from hive_bitmap.index.group import key_columns
from hive_bitmap.index.metastore import Table
from hive_bitmap.index.tasks import in_tasks, parallelism
from hive_bitmap.query import answers as spark_answers
from hive_bitmap.query import settings, state
from hive_bitmap.query.budget import bytes_to_look_up, index_bytes, over_budget
from hive_bitmap.query.candidates import (
    Candidates,
    Found,
    Lookup,
    PartitionState,
    Whole,
    candidates,
    choose_indexes,
    evaluate_here,
    knowing,
    look_up,
)
from hive_bitmap.query.keys import Answers
from hive_bitmap.query.left import left_to_spark
from hive_bitmap.query.nodes import TRUE, Predicate, Unknown, leaves_of
from hive_bitmap.query.planner import (
    BLOCKS,
    FILES,
    FULL_SCAN,
    INDEX_ONLY,
    STRATEGIES,
    IndexUse,
    Plan,
    Question,
    explain_indexes,
    full_scan,
    make_plan,
)
from hive_bitmap.query.predicates import parse
from hive_bitmap.query.prices import share_of_bytes, too_small, waiting_seconds
from hive_bitmap.query.probe import require_readable
from hive_bitmap.query.request import Evaluate, Request, Resolved, require_sql
from hive_bitmap.stores.speed import LOCAL, Speed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_INDEX_BYTES = 256 << 20  # more index than this is looked up in tasks
DRIVER_STATISTICS_BYTES = 4 << 30  # of more index than this not even the statistics are read in this process
_ASKS_FOR_FILES = re.compile(r"\binput_file_|\b_metadata\b", re.IGNORECASE)
_FILES_ASKED_FOR = "the predicate may ask for the file of a row, which only the table's own reader knows"
_NO_ARROW = re.compile(r"\binterval (year|month)")  # types that no task can give to Spark
SAMPLED = 8  # of many partitions, looked up first where a look at all may not pay
MOST_WHOLE_FILES = 500  # more files to be read whole than this are not opened one by one to see if they can be


@dataclass(frozen=True)
class Reading:
    """What the tasks need besides the plan: columns to read, the partitions' values (a row each), Spark's answers.

    `settings` are those of the session.
    """

    base: Table
    settings: Mapping[str, str] = field(repr=False)  # secrets of stores may be among them
    format: str
    columns: tuple[KeyColumn, ...]
    constants: pa.Table
    answers: Answers
    work: Candidates


@dataclass(frozen=True)
class Prepared:
    """A plan; `reading` is None where Spark reads all."""

    plan: Plan
    reading: Reading | None = None


@dataclass(frozen=True)
class _Target:
    """An indexed table and the predicate over it."""

    base: Table
    format: str
    tree: Predicate
    indexes: tuple[Index, ...]
    chosen: Mapping[str, Definition]


@dataclass(frozen=True)
class _Scope:
    """The partitions that are left, what is left of the predicate in each, and their typed values, a row each.

    `cores` is how many tasks the session runs at once, `store` how fast the files come.
    """

    partitions: list[PartitionState]
    predicates: list[Predicate]
    values: pa.Table
    zone: str
    crc: int
    cores: int
    store: Speed


def prepare(spark: SparkSession, request: Request, resolved: Resolved | None = None) -> Prepared:
    """Plan a request, of a scan that Spark itself plans with what it has `resolved`.

    Raises NotFound for unknown names and InvalidPredicate for a predicate that Spark refuses.
    """
    if request.strategy is not None and request.strategy not in STRATEGIES:
        raise NotFound.of("strategy", request.strategy, STRATEGIES)
    conf = metastore.settings(spark) if resolved is None else resolved.settings
    said = settings.read(conf)
    try:
        target, untested = _target(spark, request, resolved, conf)
        code, why_not = ("off", said.why_off) if said.why_off else untested
    except (Unsupported, StoreError) as e:
        return _left(request.table, request, e, "unsupported")
    uses = explain_indexes([(i.definition, i.why_not) for i in target.indexes], target.chosen, target.tree)
    native = resolved is not None and resolved.native
    wanted = request.strategy or (said.strategy if native else said.strategy_for(target.format))
    if why_not or wanted == FULL_SCAN:
        unused = tuple(
            replace(use, used=False, reason=use.reason if not use.used else why_not or "not wanted") for use in uses
        )
        return Prepared(
            full_scan(target.base.full_name, request.predicate, why_not or "it was asked for", unused, code or "off")
        )
    try:
        scope = _scope(spark, target, resolved)
    except (Unsupported, StoreError) as e:
        return _left(target.base.full_name, request, e, "unsupported", uses)
    size = _bytes(scope)
    files = sum(len(partition.files) for partition in scope.partitions)
    share = _share(target.base, _needed(target.base, request, resolved is not None))
    hurry = request.hurry and wanted is None
    if hurry and too_small(int(size * share), scope.cores, native=native, files=files, store=scope.store):
        why_not = f"all of its {size:,} bytes are read in less time than reading through an index takes to start"
        return Prepared(full_scan(target.base.full_name, request.predicate, why_not, uses, "too_small"))
    sample = _sample(scope) if hurry else None
    try:
        if sample is not None:
            reading, question = _look_up(spark, request, target, sample, conf, resolved)
            plan = make_plan(replace(question, times=size / max(_bytes(sample), 1)), uses, reading.work)
            if plan.strategy == FULL_SCAN:
                why_not = f"in {len(sample.partitions)} of {len(scope.partitions)} partitions {plan.reason}"
                return Prepared(full_scan(target.base.full_name, request.predicate, why_not, uses, "not_selective"))
        reading, question = _look_up(spark, request, target, scope, conf, resolved)
    except (Unsupported, StoreError) as e:
        return _left(target.base.full_name, request, e, "not_selective", uses)
    plan = make_plan(question, uses, reading.work)
    if _by_tasks(plan, resolved) and (path := _any_file(reading.work)):
        try:
            require_readable(spark, conf, path)
        except StoreError as e:
            return _left(target.base.full_name, request, e, "store", uses)
    if request.strategy is not None or wanted in plan.costs:
        plan = _forced(plan, str(wanted))
    return Prepared(plan, reading)


def _bytes(scope: _Scope) -> int:
    """The bytes of the files of all partitions."""
    return sum(file.size for partition in scope.partitions for file in partition.files)


def _sample(scope: _Scope) -> _Scope | None:
    """Some of many partitions, evenly spread; None of few."""
    step = len(scope.partitions) // SAMPLED
    if step < 2:
        return None
    numbers = range(step // 2, step * SAMPLED, step)
    return replace(
        scope,
        partitions=[scope.partitions[number] for number in numbers],
        predicates=[scope.predicates[number] for number in numbers],
        values=scope.values.take(pa.array(numbers, pa.int64())),
    )


def _left(
    table: str, request: Request, error: Unsupported | StoreError, code: str, uses: tuple[IndexUse, ...] = ()
) -> Prepared:
    """Spark reads all, for a reason of this code, or because a store fails."""
    code = "store" if isinstance(error, StoreError) else code
    return Prepared(full_scan(table, request.predicate, left_to_spark(error), uses, code))


def _by_tasks(plan: Plan, resolved: Resolved | None) -> bool:
    """Whether tasks of ours open base files, not Spark's own reader alone."""
    native = resolved is not None and resolved.native and resolved.partitions is not None
    return plan.strategy not in (FULL_SCAN, INDEX_ONLY) and not (native and plan.strategy in (BLOCKS, FILES))


def _target(
    spark: SparkSession, request: Request, resolved: Resolved | None, conf: Mapping[str, str]
) -> tuple[_Target, tuple[str, str]]:
    """The table with its indexes, and why none of them can serve, a key of REASONS and a text; empty if one can."""
    if resolved is None:
        base, indexes = catalog.table_and_indexes(spark, request.table, catalog.INDEXES_REMEMBERED)
    else:
        base, indexes = resolved.base, list(resolved.indexes)
    format = listing.format_of(base)
    tree = _parsed(spark, request, base) if resolved is None else resolved.predicate
    usable = [index.definition for index in indexes if not index.why_not]
    keys = _data_keys(request.keys, base)
    chosen = choose_indexes(usable, tree, keys)
    if not request.count:
        chosen.pop("", None)
    target = _Target(base, format, tree, tuple(indexes), chosen)
    if not indexes:
        return target, ("no_index", "the table has no index")
    if missing := [key for key in keys if key not in chosen]:
        return target, ("not_tested", f"no index of type BITMAP has the key {missing[0]}")
    if not chosen:
        unusable = "".join(f"; {index.why_not}" for index in indexes if index.why_not)
        code = "no_index" if unusable else _why_untested(tree)
        return target, (code, f"no index has a column that the predicate tests{unusable}")
    if resolved is None and _ASKS_FOR_FILES.search(request.predicate or ""):
        return target, ("unsupported", _FILES_ASKED_FOR)
    if resolved is None and metastore.is_cached(spark, base.sql_name):
        return target, ("cached", "its rows are in the session's cache")
    doubt = listing.doubt(conf, base)
    return target, ("unsupported" if doubt else "", doubt)


def _parsed(spark: SparkSession, request: Request, base: Table) -> Predicate:
    if request.predicate is None:
        return TRUE
    try:
        columns = (*base.columns, *base.partition_columns)
        tree = parse(request.predicate, columns, base.name)
    except InvalidPredicate as e:
        require_sql(spark, request)  # Spark has the last word on what that is
        tree = Unknown(request.predicate, str(e))
    return tree


def _why_untested(tree: Predicate) -> str:
    return "not_understood" if any(isinstance(leaf, Unknown) for leaf in leaves_of(tree)) else "not_tested"


def _evaluate(spark: SparkSession, base: Table, resolved: Resolved | None) -> Evaluate:
    return partial(spark_answers.true_keys, spark, base.name) if resolved is None else resolved.evaluate


def _scope(spark: SparkSession, target: _Target, resolved: Resolved | None) -> _Scope:
    base = target.base
    evaluate = _evaluate(spark, base, resolved)
    served = {definition.name for definition in target.chosen.values()}
    indexes = [index for index in target.indexes if index.definition.name in served]
    zone = metastore.time_zone(spark)
    reading = serde.reading(base)
    crc = schema_crc(base.columns, zone, reading)
    # ORC files may name no columns, and hold wall-clock times: their keys outlive only new columns behind the others
    schemas = [schema_crc(base.columns[: end + 1], zone) for end in range(len(base.columns))]
    known = schemas if target.format == "orc" else [crc] if reading else None
    if resolved is None or resolved.partitions is None:
        found = sources.partitions(spark, base)
        kept, left, typed = state.partitions_left(base, [one.values for one in found], target.tree, evaluate)
        now = state.states(spark, [found[number] for number in kept], base, indexes, known)
        state.follow(spark, base, now)
    else:
        listed = resolved.partitions
        kept, left, typed = state.partitions_left(base, [values for values, _ in listed], target.tree, evaluate)
        kept = kept if listed else []
        now = state.states_of(spark, [listed[number] for number in kept], typed, base, indexes, known)
    cores = parallelism(spark) if resolved is None else resolved.cores
    store = next((stores.speed_of(file.path) for partition in now for file in partition.files), LOCAL)
    return _Scope(now, left, typed, zone, crc, cores, store)


def _look_up(
    spark: SparkSession,
    request: Request,
    target: _Target,
    scope: _Scope,
    conf: Mapping[str, str],
    resolved: Resolved | None,
) -> tuple[Reading, Question]:
    base, typed = target.base, scope.values
    answers = spark_answers.ask(
        _evaluate(spark, base, resolved), target.tree, target.chosen, scope.partitions
    )
    keys = _data_keys(request.keys, base)
    sets = [_data_keys(one, base) for one in request.apart or [request.keys]]
    waits = waiting_seconds(sum(len(partition.files) for partition in scope.partitions), scope.cores, scope.store)
    counted = sets if request.count and request.strategy is None else []
    evaluate = _evaluation(spark, answers, scope.cores, counted, waits)
    work = knowing(candidates(scope.partitions, scope.predicates, target.chosen, evaluate), keys)
    columns = _needed(base, request, resolved is not None)
    read = tuple(key_columns([c for c in columns if c in base.columns], base.columns, scope.zone))
    constants = [c.name for c in columns if c not in base.columns]
    question = Question(
        base.full_name,
        request.predicate,
        target.format,
        frozenset(column.name.lower() for column in read),
        scope.crc,
        scope.cores,
        request.count,
        _unreadable(target.format, read, work.whole) | _untyped(constants, typed) | _defaulted(columns),
        _may_skip_files(spark, base, columns),
        bool(serde.reading(base)) and metastore_jvm.available(spark),
        settings.read(conf).engine_reads_only,
        _share(base, columns),
        resolved is not None and resolved.native,
        scope.store,
    )
    kept = [name for name in constants if name in typed.column_names]
    return Reading(base, conf, target.format, read, typed.select(kept), answers, work), question


def _share(base: Table, needed: Sequence[Column]) -> float:
    """Roughly, what of the bytes of the files is read for these columns."""
    return 1.0 if serde.reading(base) else share_of_bytes(needed, (*base.columns, *base.partition_columns))


def _may_skip_files(spark: SparkSession, base: Table, columns: Sequence[Column]) -> bool:
    """Whether Spark can read these columns of some of a table's files, and tasks of ours look at the others."""
    told = not serde.reading(base) and (metastore_jvm.available(spark) or base.provider != "hive")
    hidden = any(column.name.lower() == "_metadata" for column in (*base.columns, *base.partition_columns))
    return told and not hidden and not any(_NO_ARROW.search(column.type) for column in columns)


def _data_keys(keys: Sequence[str], base: Table) -> list[str]:
    """The lower-case names of the keys that lie in the files."""
    columns = {column.name.lower() for column in base.columns}
    return [key.lower() for key in keys if key.lower() in columns]


def _needed(base: Table, request: Request, resolved: bool) -> list[Column]:
    """The columns that the request returns or its predicate may mention, in table order; at least one of the files'.

    Those that Spark has `resolved` are all that are needed.
    """
    schema = (*base.columns, *base.partition_columns)
    text = (request.predicate or "").lower()
    names = request.keys if request.count else request.columns
    wanted = schema if names is None else [find(schema, name, f"table {base.full_name}") for name in names]
    mentioned = [c for c in schema if not resolved and (c.name.lower().replace("`", "``") in text or "*" in text)]
    chosen = [column for column in schema if column in wanted or column in mentioned]
    return chosen if any(c in base.columns for c in chosen) else [base.columns[0], *chosen]


def _evaluation(
    spark: SparkSession, answers: Answers, cores: int, counted: Sequence[Sequence[str]], waits: float
) -> Callable[[Sequence[Lookup]], list[Found]]:
    """Look up in this process where little index has to be read, else in tasks.

    Where sets of keys are to be `counted`, Unsupported is raised if Spark is quicker at one of them.
    """

    def evaluate(lookups: Sequence[Lookup]) -> list[Found]:
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


def _any_file(work: Candidates) -> str:
    """The path of one of the files; "" where there is none."""
    indexed = (path for lookup in work.lookups for path in lookup.unit.paths)
    return next(indexed, "") or next((file.status.path for file in work.whole), "")


def _unreadable(format: str, columns: Sequence[KeyColumn], whole: Sequence[Whole]) -> dict[str, str]:
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
