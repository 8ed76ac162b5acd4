"""Read few rows in this process, when a plan is executed.

For few rows, a Spark job would take longer. Planning estimates from the bytes of the blocks whether rows are few. Rows
may be much larger in memory, so bytes and seconds are bounded again while rows are read. A read that exceeds a bound is
left to Spark, now and when it is requested again.

This module loads the readers of base files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.core.answering.answer_size import TooLarge, too_large
from hive_bitmap.core.formats.key_values import column_type
from hive_bitmap.core.index.fingerprint import Fingerprint, are_unchanged
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.prices import DRIVER_THREADS
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.selecting.first_rows import needed_pieces
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.catalyst.decision import FetchPart
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.reading.read_task import ReadTask, SelectedRows, bytes_at_once, read_task, select_rows
from hive_bitmap.spark.reading.superset import shared_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
SECONDS = 5.0  # the longest read; after it Spark takes over, because a user can cancel jobs of Spark
BYTES_AT_ONCE = 64 << 20  # the most that a reader may decode at once


def fetch_of(prepared: Prepared, pieces: Sequence[Piece]) -> FetchPart | None:
    """Return how this process reads the selected rows.

    `pieces` are the blocks to read, by split. Return None if tasks of Spark have to read the rows.
    """
    plan, columns, results = prepared.plan, prepared.request.columns, prepared.results
    if results is None or plan.strategy is not Strategy.ROWS or not plan.in_driver:
        return None
    if too_large.get(_key(plan, columns)):
        return None
    compared: tuple[Fingerprint, ...] = ()
    if prepared.unbounded is not None:
        compared = tuple(file for lookup in results.lookups for file in lookup.fingerprints)
        pieces = needed_pieces(results, pieces)
    tasks = tuple(shared_tasks(prepared, pieces, min(prepared.resolved.cores, DRIVER_THREADS)))
    most = prepared.resolved.settings.driver_read_bytes
    return FetchPart(plan=replace(plan, candidates=None), columns=columns, tasks=tasks, most=most, compared=compared)


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
            too_large.put(_key(fetch.plan, fetch.columns), str(e))
        return None
    all_batches = [batch for batches in task_batches for batch in batches]
    table = pa.Table.from_batches(all_batches) if all_batches else _no_rows(fetch.tasks[0])
    names = {name.lower(): name for name in table.column_names}
    return table.select([names[column.lower()] for column in fetch.columns])


def _key(plan: Plan, columns: Sequence[str]) -> tuple[Any, ...]:
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
