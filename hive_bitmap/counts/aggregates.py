"""Answers from the index alone: counts of a predicate's rows, in all or by key.

Files that the index does not know as they are now are read and added. Fingerprints are compared at this moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from hive_bitmap import stores
from hive_bitmap.columns import Column, find
from hive_bitmap.counts.tally import COUNT, added, tally
from hive_bitmap.errors import CorruptBitmap, CorruptIndex
from hive_bitmap.explaining.plan import INDEX_ONLY, Plan
from hive_bitmap.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.index.fingerprint import Fingerprint
from hive_bitmap.metastore.table_info import quote
from hive_bitmap.parallel import each
from hive_bitmap.planning.count_budget import index_bytes
from hive_bitmap.planning.planner import needs_file
from hive_bitmap.planning.prepare import DRIVER_INDEX_BYTES, Prepared, Reading, prepare
from hive_bitmap.planning.request import Request, analysed
from hive_bitmap.planning.spark_fallback import left_to_spark
from hive_bitmap.reading.read_task import ReadTask
from hive_bitmap.reading.scan import direct_rows, narrowed, task
from hive_bitmap.selecting.candidates import Lookup, restrict
from hive_bitmap.selecting.key_matches import Answers
from hive_bitmap.selecting.lookup_units import Flags
from hive_bitmap.tasks.distribution import in_tasks, store_failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
log = logging.getLogger(__name__)
PIECE_ROWS = 16 << 20  # rows of base files whose keys are counted at a time: bounds what their bits take in memory


@dataclass(frozen=True)
class _Tallied:
    """The keys of a lookup; None where its index is damaged, or where they are too many for this way of counting."""

    keys: pa.Table | None
    damaged: bool = False


@dataclass(frozen=True)
class _Counted:
    """Tables of keys and COUNT, the first of them empty, and what reads the files that they do not count."""

    tables: list[pa.Table]
    rest: list[ReadTask]


@dataclass(frozen=True)
class KnownCounts:
    """The keys of each key set with their COUNT, in all files but the `unknown` ones, which have to be read.

    A table a key set: its columns, and `count` (int64); a row for each combination of values that occurs.
    """

    tables: tuple[pa.Table, ...]
    unknown: frozenset[str]


def count(spark: SparkSession, table: str, predicate: str | None = None, *, strategy: str | None = None) -> int:
    """How many rows of the table satisfy the predicate; no Spark job runs where the index holds the answer.

    Raises what `plan` raises.
    """
    request = Request(table, predicate, None, True, strategy)
    prepared = prepare(spark, request)
    log.info("count of %s where %s: %s (%s)", table, predicate, prepared.plan.strategy, prepared.plan.reason)
    return count_prepared(spark, request, prepared)


def group_counts(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] = (),
    *,
    strategy: str | None = None,
) -> pa.Table:
    """The distinct values of these columns among the rows that satisfy the predicate, and how often each occurs.

    The result has one row for each combination of values that occurs, in no order: the columns, under the table's names
    for them, and `count` (int64). The index alone answers for the columns of one
    index, or of two of which one has few keys, and partition columns besides; else Spark counts.
    Raises what `plan` raises.
    """
    request = Request(table, predicate, None, True, strategy, keys=tuple(columns))
    prepared = prepare(spark, request)
    plan = prepared.plan
    log.info("counts of %s by %s where %s: %s (%s)", table, columns, predicate, plan.strategy, plan.reason)
    found = counts_by_key(spark, request, prepared)
    if found is not None:
        return found
    frame = analysed(spark, request)
    for column in columns:
        find([Column(name, "") for name in frame.columns], column, f"table {table}")
    return by_spark(frame, columns)


def count_prepared(spark: SparkSession, request: Request, prepared: Prepared) -> int:
    """The count of a prepared request without keys."""
    found = counts_by_key(spark, request, prepared)
    return analysed(spark, request).count() if found is None else int(found[COUNT].to_numpy().sum())


def counts_by_key(spark: SparkSession, request: Request, prepared: Prepared) -> pa.Table | None:
    """The counts of a prepared request: its keys and COUNT, no row for what does not occur; None where Spark has to."""
    return _unless_store_fails(lambda: _counts_by_key(spark, request, prepared))


def known_counts(spark: SparkSession, request: Request, prepared: Prepared) -> KnownCounts | None:
    """What the index knows of each of the key sets of a prepared request; None where Spark has to count all."""
    return _unless_store_fails(lambda: _known_by_set(spark, request, prepared))


def _unless_store_fails(ask: Callable[[], T | None]) -> T | None:
    try:
        return ask()
    except Exception as e:  # py4j's errors, too, of tasks in which a store fails
        if (failed := store_failed(e)) is None:
            raise
        left_to_spark(failed)
        return None


def _counts_by_key(spark: SparkSession, request: Request, prepared: Prepared) -> pa.Table | None:
    reading = prepared.reading
    found = None if reading is None else _known_counts(spark, request, prepared.plan, reading)
    if reading is None or found is None:
        return None
    tables, tasks = list(found.tables), found.rest
    rest = direct_rows(spark, request, reading, tasks)
    if rest is not None:
        matching = narrowed(rest, request, reading, rest.columns)
        if matching is None:
            return None
        schema = tables[0].schema
        tables.append(by_spark(matching, request.keys).rename_columns(schema.names).cast(schema))
    return added(tables)


def _known_by_set(spark: SparkSession, request: Request, prepared: Prepared) -> KnownCounts | None:
    reading = prepared.reading
    if reading is None:
        return None
    sets = request.grouping_sets
    found = [_known_counts(spark, replace(request, keys=keys), prepared.plan, reading) for keys in sets]
    counted = [one for one in found if one is not None]
    files = [frozenset(path for task in one.rest for path in task.paths) for one in counted]
    if len(counted) < len(found) or len(set(files)) > 1 or (len(counted) > 1 and files[0]):
        return None  # files that are read once a set may change in between
    lookups = [restrict(one, kept) for one in reading.results.lookups for kept in _listed(_except_files(one, files[0]))]
    prints = [fingerprint for lookup in lookups for fingerprint in lookup.fingerprints]
    # of a store the files are those that it listed, or showed, when counting began: to ask again is a request a file
    if not all(one.confirmed() for one in prints if stores.is_local(one.path)):
        return None  # a file changed while it was counted
    return KnownCounts(tuple(added(one.tables) for one in counted), files[0])


def _except_files(lookup: Lookup, files: frozenset[str]) -> Flags:
    return np.array([path not in files for path in lookup.unit.paths], bool)


def _known_counts(spark: SparkSession, request: Request, plan: Plan, reading: Reading) -> _Counted | None:
    """What the index knows, and tasks that read the rest; None where Spark has to count all."""
    if plan.strategy != INDEX_ONLY:
        return None
    schema = _schema(reading, request.keys)
    if schema is None:
        return None
    lookups: list[Lookup] = []
    tables, tasks = [schema.empty_table()], [task(reading, None, [file]) for file in reading.results.whole]
    keys = {key.lower() for key in request.keys}
    data = [column.name.lower() for column in reading.resolved.base.columns if column.name.lower() in keys]
    for lookup, found in zip(reading.results.lookups, reading.results.found, strict=True):
        confirmed, needed = _confirmed(lookup), needs_file(found, lookup)
        known = found.exact & confirmed
        tasks += [task(reading, restrict(lookup, files), ()) for files in _listed(~known & (needed | ~confirmed))]
        if data:
            lookups += [restrict(lookup, files) for files in _listed(known & needed)]
        else:
            rows = int(found.counts[known[lookup.unit.file]].sum())
            tables += [_complete(pa.table({COUNT: [rows]}), reading, lookup, schema)] if rows else []
    for lookup, tallied in zip(lookups, _tally_all(spark, lookups, reading.answers, data), strict=True):
        if tallied.keys is not None:
            tables.append(_complete(tallied.keys, reading, lookup, schema))
        elif tallied.damaged:
            tasks.append(task(reading, lookup, ()))
        else:
            return None
    return _Counted(tables, tasks)


def by_spark(frame: DataFrame, columns: Sequence[str]) -> pa.Table:
    """The same counts of a DataFrame's rows, by Spark."""
    names = {name.lower(): name for name in frame.columns}
    return frame.groupBy(*(quote(names.get(column.lower(), column)) for column in columns)).count().toArrow()


def _schema(reading: Reading, keys: Sequence[str]) -> pa.Schema | None:
    """The columns of the answer; None for a key named like COUNT, or a partition column that only Spark can type."""
    base = reading.resolved.base
    columns = [find((*base.columns, *base.partition_columns), key, f"table {base.full_name}") for key in keys]
    data = {column.name for column in base.columns}
    if COUNT in {key.lower() for key in keys}:
        return None
    if any(column.name not in data and column.name not in reading.constants.column_names for column in columns):
        return None
    fields = [pa.field(column.name, arrow_type(KeyColumn(column.name, column.type))) for column in columns]
    return pa.schema([*fields, pa.field(COUNT, pa.int64())])


def _confirmed(lookup: Lookup) -> Flags:
    """Which files are still those of the index; where the store has tags, the listing of a moment ago has said so."""
    prints = lookup.fingerprints
    return np.array(each(lambda one: bool(one.etag) or one.confirmed(), prints, _threads(prints)), bool)


def _threads(prints: Sequence[Fingerprint]) -> int:
    """How many of these files, of one table, are looked at at the same time."""
    return stores.parallel(prints[0].path) if prints else 1


def _listed(files: Flags) -> list[list[int]]:
    """The numbers of the files, in a list if there are any."""
    return [np.flatnonzero(files).tolist()] if files.any() else []


def _complete(keys: pa.Table, reading: Reading, lookup: Lookup, schema: pa.Schema) -> pa.Table:
    """Keys that lie in files, with those that the partition gives, as the answer has them."""
    found = keys.rename_columns([name.lower() for name in keys.column_names])
    values = [
        found[field.name.lower()]
        if field.name.lower() in found.column_names
        else pa.chunked_array([pa.repeat(reading.constants[field.name][lookup.partition], found.num_rows)])
        for field in schema
    ]
    return pa.table(values, schema.names).cast(schema)


def _tally_all(spark: SparkSession, lookups: Sequence[Lookup], answers: Answers, keys: Sequence[str]) -> list[_Tallied]:
    """The keys of each lookup, counted here where little index has to be read, else in tasks."""
    if not lookups or index_bytes(lookups, keys) <= DRIVER_INDEX_BYTES:
        return [_tally(lookup, answers, keys) for lookup in lookups]
    return in_tasks(spark, lookups, partial(_tally, answers=answers, keys=keys))


def _tally(lookup: Lookup, answers: Answers, keys: Sequence[str]) -> _Tallied:
    unit = lookup.unit
    rows = np.bincount(unit.file, unit.rows, len(unit.paths))
    piece = np.cumsum(rows) // PIECE_ROWS
    tables = []
    for files in (np.flatnonzero(piece == number).tolist() for number in np.unique(piece)):
        try:
            found = tally(restrict(lookup, files).unit, lookup.predicate, answers, keys)
        except (CorruptIndex, CorruptBitmap) as e:
            log.warning("an index is damaged, its files are read whole until it is rebuilt in full: %s", e)
            return _Tallied(None, damaged=True)
        if found is None:
            return _Tallied(None)
        tables.append(found)
    return _Tallied(tables[0] if len(tables) == 1 else added(tables))
