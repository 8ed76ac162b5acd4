"""Carry out decisions when plans are executed.

This process then counts from an index, or reads few rows. The lookups that planned a count also count the keys. Spark
counts a file that has changed since the query was planned.

For few rows, a Spark job would take longer. Planning estimates from the bytes of the blocks whether rows are few. Rows
may be much larger in memory, so bytes and seconds are bounded again while rows are read. A read that exceeds a bound is
left to Spark, now and when it is requested again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.answering.answer_size import TooLarge
from hive_bitmap.core.answering.tally import is_countable
from hive_bitmap.core.formats.key_values import column_type
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.listings.scan_listing import ScanListing, as_now
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.planner import needs_file
from hive_bitmap.core.planning.prices import DRIVER_THREADS
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.selecting.first_rows import needed_pieces
from hive_bitmap.core.selecting.index_rows import COUNT
from hive_bitmap.core.selecting.lookup_units import Place
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.spark.catalyst.decision import Counts, FetchPart
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.preparing.spark_only import fallback_reason
from hive_bitmap.spark.reading.aggregates import known_counts
from hive_bitmap.spark.reading.read_task import (
    ReadTask,
    SelectedRows,
    are_unchanged,
    bytes_at_once,
    read_task,
    select_rows,
)
from hive_bitmap.spark.reading.superset import shared_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
SECONDS = 5.0  # the longest read; after it Spark takes over, because a user can cancel jobs of Spark
BYTES_AT_ONCE = 64 << 20  # the most that a reader may decode at once
_Key = tuple[str, str | None, int | None, int | None, str, tuple[str, ...]]
_too_large: Cache[_Key, bool] = Cache("rows that were too large", lambda value: 0)


def fetch_of(prepared: Prepared, pieces: Sequence[Piece], columns: Sequence[str], most: int) -> FetchPart | None:
    """Return how this process reads the selected rows.

    `pieces` are the blocks to read, by split, and `columns` the columns. A task may take at most `most` bytes. Return
    None if tasks of Spark have to read the rows.
    """
    reading, plan = prepared.reading, prepared.plan
    if reading is None or plan.strategy is not Strategy.ROWS or not plan.in_driver:
        return None
    if _too_large.get(_key(plan, columns)):
        return None
    compared: tuple[Fingerprint, ...] = ()
    if prepared.unbounded is not None:
        compared = tuple(file for lookup in reading.results.lookups for file in lookup.fingerprints)
        pieces = needed_pieces(reading.results, pieces)
    tasks = tuple(shared_tasks(reading, pieces, min(reading.resolved.cores, DRIVER_THREADS)))
    plan = replace(plan, candidates=None)
    return FetchPart(plan=plan, columns=tuple(columns), tasks=tasks, most=most, compared=compared)


def rows(spark: SparkSession, fetch: FetchPart) -> pa.Table | None:
    """Read the rows of a fetch, in the order of its tasks.

    The caller still has to apply the predicate. Return None if Spark has to read the rows: only Spark can read the
    current version of a file, a file is gone, a file in `fetch.compared` has changed since planning, or the rows
    exceed a bound of bytes or seconds.
    """
    session_settings.use_stores(spark)
    until = time.monotonic() + SECONDS
    try:
        selected = select_rows(fetch.tasks[0])
        batches_of = partial(_batches, selected=selected, most=fetch.most, until=until)
        task_batches = map_parallel(batches_of, fetch.tasks, DRIVER_THREADS)
        if not are_unchanged(fetch.compared):
            log.info("Spark reads the rows of table %s: a file has changed since planning", fetch.plan.table)
            return None
    except (HiveBitmapError, FileNotFoundError) as e:
        log.info("Spark reads the rows of table %s: %s", fetch.plan.table, e)
        if isinstance(e, TooLarge):
            _too_large.put(_key(fetch.plan, fetch.columns), True)
        return None
    all_batches = [batch for batches in task_batches for batch in batches]
    table = pa.Table.from_batches(all_batches) if all_batches else _no_rows(fetch.tasks[0])
    names = {name.lower(): name for name in table.column_names}
    return table.select([names[column.lower()] for column in fetch.columns])


def _key(plan: Plan, columns: Sequence[str]) -> _Key:
    return plan.table, plan.predicate, plan.rows_selected, plan.bytes_total, str(plan.first or ""), tuple(columns)


def _batches(task: ReadTask, selected: Sequence[SelectedRows], most: int, until: float) -> list[pa.RecordBatch]:
    """Return the rows that a task selects.

    `selected` has the selected rows of each lookup. Raise TooLarge if the rows have more than `most` bytes, or if
    reading does not end before `until`, a time of `time.monotonic`.
    """
    if bytes_at_once(task) > BYTES_AT_ONCE:
        raise TooLarge(f"a block takes more than {BYTES_AT_ONCE:,} bytes when it is decoded")
    batches, size = [], 0
    for batch in read_task(task, selected):
        size += batch.nbytes
        if size > most:
            raise TooLarge(f"they take more than {most:,} bytes")
        if time.monotonic() > until:
            raise TooLarge(f"reading them takes more than {SECONDS:g} seconds")
        batches.append(batch)
    return batches


def _no_rows(task: ReadTask) -> pa.Table:
    schema = pa.schema([(column.name, column_type(column)) for column in task.columns])
    return pa.schema([*schema, *task.constants.schema]).empty_table()


def number_of_rows(spark: SparkSession, decision: Counts) -> int | None:
    """Return the number of rows that a count finds, before the plan is executed.

    Return None if counts by key are requested, or if Spark has to execute the aggregation. Also return None if Spark
    has listed files outside the local file system, because Spark's listing may lack the tags of these files. `counts`
    then requests the current status of the files, during the execution.
    """
    if decision.prepared.reading is None or decision.request.grouping_sets != ((),) or decision.sums is not None:
        return None
    paths = (path for lookup in decision.prepared.reading.results.lookups for path in lookup.unit.paths)
    if decision.listing is not None and not all(map(stores.is_local, paths)):
        return None
    found = known_counts(spark, decision.request, decision.prepared)
    if found is None:
        return None
    (table, *_), unknown = found
    return None if unknown else sum(table[COUNT].to_pylist())


def counts(spark: SparkSession, decision: Counts) -> tuple[tuple[pa.Table, ...], list[int]] | None:
    """Return the counts of each key set, and the files that Spark has to count.

    The counts are correct for the current files. The files that Spark has to count are given as their positions in the
    scan's listing, in ascending order. Return None if Spark has to aggregate the whole table.
    """
    planned = None if decision.listing is None else decision.listing()
    if planned is None and decision.listing is not None:
        return None
    session_settings.use_stores(spark)
    if decision.files is not None and not decision.files.is_current(spark):
        return None
    try:
        changed = frozenset[Place]() if planned is None else _changed(planned, decision.prepared)
        found = None if changed is None else known_counts(spark, decision.request, decision.prepared, changed)
    except StoreError as e:
        fallback_reason(e)
        return None
    if found is None:
        return None
    tables, unknown = found
    if unknown and planned is None:
        return None  # without a listing, Spark cannot be told to read only the files that are not indexed
    numbers = planned.numbers if planned is not None and unknown else {}
    return tables, sorted(numbers[place] for place in unknown)


def _changed(planned: ScanListing, prepared: Prepared) -> frozenset[Place] | None:
    """Return the places of the files that have changed since planning.

    `planned` is the listing of the scan. Each file is compared with its current status in the store. Return None if a
    file is gone.
    """
    current = as_now(planned)
    if current is None or prepared.reading is None:
        return None
    if current is planned:  # files of a log, which never change
        return frozenset()
    states = zip(planned.files, current.files, strict=True)
    numbers = [number for number, (before, now) in enumerate(states) if _state(before) != _state(now)]
    places = list(planned.numbers) if numbers else []
    changed = {places[number] for number in numbers}
    status, results = {file.path: file for file in current.files}, prepared.reading.results
    for lookup in results.lookups:
        same = lookup.matches([status[path] for path in lookup.unit.paths])
        for file in np.flatnonzero(~same).tolist():
            changed.add(Place(results.partitions[lookup.partitions[file]].number, lookup.unit.paths[file]))
    return frozenset(changed)


def _state(file: FileStatus) -> tuple[int, int]:
    return file.size, file.mtime_ms


def is_countable_together(
    prepared: Prepared, key_sets: Sequence[Sequence[str]], *, others_by_spark: bool = False
) -> bool:
    """Return whether the index can count the keys of every key set.

    All key sets must be counted over the same rows. So lookups must be exact in each file where they select rows,
    unless Spark aggregates the other files (`others_by_spark`). Values of partition columns must have a known type. If
    there are several key sets, no file may be read whole.
    """
    if prepared.reading is None or (len(key_sets) > 1 and prepared.reading.results.whole_files):
        return False
    results = prepared.reading.results
    exact = all((candidates.exact | ~needs_file(candidates, lookup)).all() for lookup, candidates in results.pairs())
    if not exact and not others_by_spark:
        return False
    base, constant_columns = prepared.reading.resolved.base, prepared.reading.constants.column_names
    untyped = {column.name.lower() for column in base.partition_columns if column.name not in constant_columns}
    if any(key.lower() in untyped for keys in key_sets for key in keys):
        return False
    stored = {column.name.lower() for column in base.keyed_columns}  # unlike partition columns
    stored_keys = [[key.lower() for key in keys if key.lower() in stored] for keys in key_sets]
    return all(is_countable(lookup.unit, keys) for lookup in results.lookups for keys in stored_keys)
