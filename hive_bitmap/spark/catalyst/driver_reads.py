"""Few rows that this process reads itself when a plan is executed: a job of Spark would take longer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.answering.answer_size import TooLarge
from hive_bitmap.core.formats.key_values import arrow_type
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.prices import DRIVER_THREADS
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.metastore import session_stores
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.reading.read_task import ReadTask, read_task
from hive_bitmap.spark.reading.superset import tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """What is read when the plan is executed: the rows that `tasks` select, in `columns`, each at most `most` bytes."""

    plan: Plan
    columns: tuple[str, ...]
    tasks: tuple[ReadTask, ...]
    most: int


def fetch_of(prepared: Prepared, columns: Sequence[str], most: int) -> Fetch | None:
    """Return what to read for a plan; None if that is left to tasks of Spark."""
    reading, plan = prepared.reading, prepared.plan
    if reading is None or plan.strategy is not Strategy.ROWS or not plan.in_driver or not reading.results.lookups:
        return None
    tasks = tuple(tasks_of(reading, min(reading.resolved.cores, DRIVER_THREADS)))
    return Fetch(plan=plan, columns=tuple(columns), tasks=tasks, most=most)


def rows(spark: SparkSession, fetch: Fetch) -> pa.Table | None:
    """Return the rows, the predicate still to be applied; None if Spark has to read them.

    That is so if a file has become one that Spark alone can read, or is gone, or if the rows are too many by now.
    """
    session_stores.use(spark)
    try:
        read = map_parallel(partial(_batches, most=fetch.most), fetch.tasks, DRIVER_THREADS)
    except HiveBitmapError as e:
        log.info("Spark reads the rows of table %s: %s", fetch.plan.table, e)
        return None
    batches = [batch for some in read for batch in some]
    found = pa.Table.from_batches(batches) if batches else _no_rows(fetch.tasks[0])
    names = {name.lower(): name for name in found.column_names}
    return found.select([names[column.lower()] for column in fetch.columns])


def _batches(task: ReadTask, most: int) -> list[pa.RecordBatch]:
    """Return the rows that a task selects; raise TooLarge for more than `most` bytes."""
    read, size = [], 0
    for batch in read_task(task):
        size += batch.nbytes
        if size > most:
            raise TooLarge(f"they take more than {most:,} bytes")
        read.append(batch)
    return read


def _no_rows(task: ReadTask) -> pa.Table:
    read = pa.schema([(column.name, arrow_type(column)) for column in task.columns])
    return pa.schema([*read, *task.constants.schema]).empty_table()
