"""Few rows that this process reads itself when a plan is executed: a job of Spark would take longer.

What is few is estimated by the bytes of the blocks, whose rows may be much larger in memory. So bytes and seconds are
bounded again while rows are read. What exceeds a bound is remembered, and left to Spark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.answering.answer_size import TooLarge
from hive_bitmap.core.formats.key_values import arrow_type
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.prices import DRIVER_THREADS
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.metastore import session_stores
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.reading.read_task import ReadTask, SelectedRows, bytes_at_once, read_task, select_rows
from hive_bitmap.spark.reading.superset import shared_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
SECONDS = 5.0  # after which the rest is Spark's, whose jobs can be cancelled
BYTES_AT_ONCE = 64 << 20  # that a reader may have to decode at once
_Key = tuple[str, str | None, int | None, int | None, tuple[str, ...]]
_too_large: Cache[_Key, bool] = Cache("rows that were too large", lambda value: 0)


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """What is read when the plan is executed: the rows that `tasks` select, in `columns`, each at most `most` bytes."""

    plan: Plan
    columns: tuple[str, ...]
    tasks: tuple[ReadTask, ...]  # with the same lookups
    most: int


def fetch_of(prepared: Prepared, pieces: Sequence[Piece], columns: Sequence[str], most: int) -> Fetch | None:
    """Return what to read of these pieces for a plan; None if that is left to tasks of Spark."""
    reading, plan = prepared.reading, prepared.plan
    if reading is None or plan.strategy is not Strategy.ROWS or not plan.in_driver:
        return None
    if _too_large.get(_key(plan, columns)):
        return None
    tasks = tuple(shared_tasks(reading, pieces, min(reading.resolved.cores, DRIVER_THREADS)))
    return Fetch(plan=plan, columns=tuple(columns), tasks=tasks, most=most)


def rows(spark: SparkSession, fetch: Fetch) -> pa.Table | None:
    """Return the rows in their order, the predicate still to be applied; None if Spark has to read them.

    That is so if a file has become one that Spark alone can read, or is gone, or if the rows are too many by now.
    """
    session_stores.use(spark)
    until = time.monotonic() + SECONDS
    try:
        selected = select_rows(fetch.tasks[0])
        batches_of = partial(_batches, selected=selected, most=fetch.most, until=until)
        read = map_parallel(batches_of, fetch.tasks, DRIVER_THREADS)
    except (HiveBitmapError, FileNotFoundError) as e:
        log.info("Spark reads the rows of table %s: %s", fetch.plan.table, e)
        if isinstance(e, TooLarge):
            _too_large.put(_key(fetch.plan, fetch.columns), True)
        return None
    batches = [batch for some in read for batch in some]
    found = pa.Table.from_batches(batches) if batches else _no_rows(fetch.tasks[0])
    names = {name.lower(): name for name in found.column_names}
    return found.select([names[column.lower()] for column in fetch.columns])


def _key(plan: Plan, columns: Sequence[str]) -> _Key:
    return plan.table, plan.predicate, plan.rows_selected, plan.bytes_total, tuple(columns)


def _batches(task: ReadTask, selected: Sequence[SelectedRows], most: int, until: float) -> list[pa.RecordBatch]:
    """Return the rows that a task selects; raise TooLarge for more than `most` bytes, or when it takes too long.

    `until` is a reading of `time.monotonic`.
    """
    if bytes_at_once(task) > BYTES_AT_ONCE:
        raise TooLarge(f"a block takes more than {BYTES_AT_ONCE:,} bytes when it is decoded")
    read, size = [], 0
    for batch in read_task(task, selected):
        size += batch.nbytes
        if size > most:
            raise TooLarge(f"they take more than {most:,} bytes")
        if time.monotonic() > until:
            raise TooLarge(f"reading them takes more than {SECONDS:g} seconds")
        read.append(batch)
    return read


def _no_rows(task: ReadTask) -> pa.Table:
    read = pa.schema([(column.name, arrow_type(column)) for column in task.columns])
    return pa.schema([*read, *task.constants.schema]).empty_table()
