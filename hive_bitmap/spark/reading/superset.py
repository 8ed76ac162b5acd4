"""The rows that a plan reads, by tasks of ours, or by Spark's reader of a SerDe without some splits; maybe more.

The query that uses them applies its predicate: the index prunes, the engine decides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hive_bitmap.core.formats import LAYOUTS
from hive_bitmap.core.selecting.candidates import Lookup, restrict
from hive_bitmap.core.table_info import quote
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.preparing.prepare import Prepared, Reading
from hive_bitmap.spark.preparing.request import Request
from hive_bitmap.spark.preparing.spark_types import schema_of
from hive_bitmap.spark.reading import hadoop_splits
from hive_bitmap.spark.reading.read_task import ReadTask, read_batches
from hive_bitmap.spark.tasks.distribution import distribute, parallelism, with_store_settings
from hive_bitmap.spark.tasks.worker_python import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)


def superset_rows(spark: SparkSession, request: Request, prepared: Prepared) -> DataFrame | None:
    """Return the requested columns of all rows that satisfy the predicate, and maybe of others; None for a full scan.

    The query that uses them applies the predicate itself.
    """
    reading = prepared.reading
    if reading is None or not prepared.plan.strategy.reads_selected:
        return None
    if reading.format in LAYOUTS and reading.resolved.base.partition_columns:
        return None  # the splits are chosen here, so conditions of the query on partitions would not prune them
    if reading.format in LAYOUTS:
        return _engine_splits(spark, request, reading, _columns(spark.table(request.table), request))
    most = prepared.plan.row_tasks or 1
    frame = task_rows(spark, request, reading, tasks_of(reading, min(parallelism(spark), most)), most)
    return _columns(spark.table(request.table).where("FALSE") if frame is None else frame, request)


def task_rows(
    spark: SparkSession, request: Request, reading: Reading, tasks: Sequence[ReadTask], most: int | None = None
) -> DataFrame | None:
    """Return a DataFrame of the rows that the tasks read, with the table's types; None if there are no tasks.

    Spark runs `most` tasks of its own for them, or fewer; None: as many as run at once.

    Raise Unsupported for a column that the session does not see, and for a type that PySpark takes from no task.
    """
    from pyspark.sql.types import CharType, StructType, VarcharType

    if not tasks:
        return None
    fields = {field.name.lower(): field for field in _schema(spark, request, reading).fields}
    if unseen := [name for name in tasks[0].names if name.lower() not in fields]:
        raise Unsupported(f"the session does not see column {unseen[0]} of table {reading.resolved.base.full_name}")
    schema = StructType([fields[name.lower()] for name in tasks[0].names])
    for field in schema.fields:  # under spark.sql.preserveCharVarcharTypeInfo
        if isinstance(field.dataType, (CharType, VarcharType)):
            raise Unsupported(
                f"PySpark takes no column of type {field.dataType.simpleString()} from tasks: {field.name}"
            )
    return map_in_arrow(distribute(spark, tasks, most), with_store_settings(spark, read_batches), schema)


def task(reading: Reading, lookup: Lookup, check_only: bool = False) -> ReadTask:
    """Return a task for the files of a lookup."""
    names = [column.name for column in (*reading.resolved.base.columns, *reading.resolved.base.partition_columns)]
    read = {column.name for column in reading.columns} | set(reading.constants.column_names)
    return ReadTask(
        format=reading.format,
        columns=reading.columns,
        constants=reading.constants.slice(lookup.partition, 1),
        names=tuple(name for name in names if name in read),
        lookup=lookup,
        matching_keys=reading.results.matching_keys,
        check_only=check_only,
    )


def _schema(spark: SparkSession, request: Request, reading: Reading) -> StructType:
    return schema_of(spark, request.table, reading.resolved.base, reading.resolved.settings)


def _columns(frame: DataFrame, request: Request) -> DataFrame:
    return frame.select(*map(quote, request.columns))


def tasks_of(reading: Reading, at_once: int) -> list[ReadTask]:
    """Return tasks for all lookups, split up so that there are `at_once`."""
    results = reading.results
    pieces = -(-at_once // max(len(results.lookups), 1))
    return [
        task(reading, restrict(lookup, files.tolist()))
        for lookup in results.lookups
        for files in np.array_split(np.arange(len(lookup.unit.paths)), pieces)
        if len(files)
    ]


def _engine_splits(spark: SparkSession, request: Request, reading: Reading, frame: DataFrame) -> DataFrame | None:
    """Return `frame`, a query over the table, restricted to the splits that may have selected rows.

    Tasks check that the files have not changed. Returns None if the splits cannot be pruned.
    """
    from pyspark.sql import functions as f

    pruned = hadoop_splits.pruned(spark, frame, reading.results, always=not request.must_pay)
    if pruned is None:
        return None
    tasks = [task(reading, lookup, check_only=True) for lookup in reading.results.lookups]
    checks = task_rows(spark, request, reading, tasks)
    if checks is None:
        return pruned
    return pruned.union(checks.select(*(f.lit(None).cast(c.dataType).alias(c.name) for c in frame.schema)))
