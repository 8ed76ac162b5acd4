"""The rows that a plan reads, by tasks of ours or by Spark's reader without some files or splits; maybe more.

The query that uses them applies its predicate: the index prunes, the engine decides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote as percent

import numpy as np

from hive_bitmap.errors import Unsupported
from hive_bitmap.formats import LAYOUTS
from hive_bitmap.metastore.table_info import quote
from hive_bitmap.planning.planner import needs_file
from hive_bitmap.planning.prepare import Prepared, Reading
from hive_bitmap.planning.request import Request
from hive_bitmap.planning.spark_types import schema_of
from hive_bitmap.planning.strategy import Strategy
from hive_bitmap.predicates.spark_conditions import satisfying
from hive_bitmap.reading import hadoop_splits
from hive_bitmap.reading.read_task import ReadTask, read_batches
from hive_bitmap.selecting.candidates import Lookup, WholeFile, restrict
from hive_bitmap.tasks.distribution import distribute, parallelism, with_store_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)
UNQUOTED = "/;:@&=+$,-_.!~*'()"  # characters of a path that java.net.URI does not percent-encode


def superset_rows(spark: SparkSession, request: Request, prepared: Prepared) -> DataFrame | None:
    """Return the requested columns of all rows that satisfy the predicate, and maybe of others; None for a full scan.

    The query that uses them applies the predicate itself.
    """
    reading, strategy = prepared.reading, prepared.plan.strategy
    if reading is None or not strategy.reads_selected:
        return None
    if reading.format in LAYOUTS and reading.resolved.base.partition_columns:
        return None  # the splits are chosen here, so conditions of the query on partitions would not prune them
    if reading.format in LAYOUTS:
        return _engine_splits(spark, request, reading, _columns(spark.table(request.table), request))
    frame = _read(spark, request, reading, strategy)
    if frame is None:
        return None if strategy == Strategy.FILES else _columns(spark.table(request.table).where("FALSE"), request)
    return _columns(frame, request)


def task_rows(spark: SparkSession, request: Request, reading: Reading, tasks: Sequence[ReadTask]) -> DataFrame | None:
    """Return a DataFrame of the rows that the tasks read, with the table's types; None if there are no tasks.

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
    return distribute(spark, tasks).mapInArrow(with_store_settings(spark, read_batches), schema)


def filtered(frame: DataFrame, request: Request, reading: Reading, columns: Sequence[str]) -> DataFrame | None:
    """Apply the predicate of the request to rows that were read, and select these columns.

    Returns None if Spark cannot resolve them without the table itself, as with a column qualified by the database.
    """
    from pyspark.errors import AnalysisException

    try:
        found = frame.alias(reading.resolved.base.name)
        if request.predicate is not None:
            found = satisfying(found, request.predicate)
        if found.columns != list(columns):  # also makes Spark Connect analyse the DataFrame here
            found = found.select(*map(quote, columns))
        return found
    except AnalysisException:
        return None


def task(reading: Reading, lookup: Lookup | None, whole: Sequence[WholeFile], check_only: bool = False) -> ReadTask:
    """Return a task for files of one partition: those of a lookup, or `whole` ones, or both."""
    partition = lookup.partition if lookup is not None else whole[0].partition
    names = [column.name for column in (*reading.resolved.base.columns, *reading.resolved.base.partition_columns)]
    read = {column.name for column in reading.columns} | set(reading.constants.column_names)
    return ReadTask(
        format=reading.format,
        columns=reading.columns,
        constants=reading.constants.slice(partition, 1),
        names=tuple(name for name in names if name in read),
        lookup=lookup,
        whole_files=tuple(file.status for file in whole),
        matching_keys=reading.matching_keys,
        check_only=check_only,
    )


def _schema(spark: SparkSession, request: Request, reading: Reading) -> StructType:
    return schema_of(spark, request.table, reading.resolved.base, reading.resolved.settings)


def _read(spark: SparkSession, request: Request, reading: Reading, strategy: str) -> DataFrame | None:
    """Return the rows that the plan reads, before the predicate; None for no rows, or, by FILES, for a full scan."""
    if strategy == Strategy.FILES:
        return _engine_rows(spark, request, reading)
    return task_rows(spark, request, reading, tasks_of(spark, reading))


def _columns(frame: DataFrame, request: Request) -> DataFrame:
    return frame if request.columns is None else frame.select(*map(quote, request.columns))


def tasks_of(spark: SparkSession, reading: Reading) -> list[ReadTask]:
    """Return tasks for all lookups, split up so that each core has one, and for the files that are read whole."""
    results = reading.results
    pieces = -(-parallelism(spark) // max(len(results.lookups), 1))
    tasks = [
        task(reading, restrict(lookup, files.tolist()), ())
        for lookup in results.lookups
        for files in np.array_split(np.arange(len(lookup.unit.paths)), pieces)
        if len(files)
    ]
    return tasks + [task(reading, None, [file]) for file in results.whole_files]


def _engine_rows(spark: SparkSession, request: Request, reading: Reading) -> DataFrame | None:
    """Return Spark's own scan of the table without the files that have no selected row; None if no file is left out.

    Tasks check that the files left out are still those that were planned.
    """
    from pyspark.sql import functions as f

    needed = {file.status.path for file in reading.results.whole_files}
    skipped: list[Lookup] = []
    for lookup, found in reading.results.pairs():
        wanted = needs_file(found, lookup)
        needed |= {lookup.unit.paths[file] for file in np.flatnonzero(wanted)}
        if not wanted.all():
            skipped.append(restrict(lookup, np.flatnonzero(~wanted).tolist()))
    paths = [path for lookup in skipped for path in lookup.unit.paths if path not in needed and "\n" not in path]
    if not paths:
        return None
    listed = f.split(f.lit("\n".join(_uri(path) for path in paths)), "\n")
    checks = task_rows(spark, request, reading, [task(reading, lookup, (), check_only=True) for lookup in skipped])
    frame = spark.table(request.table).where(~f.array_contains(listed, f.col("_metadata.file_path")))
    return frame if checks is None else frame.select(*map(quote, checks.columns)).union(checks)


def _engine_splits(spark: SparkSession, request: Request, reading: Reading, frame: DataFrame) -> DataFrame | None:
    """Return `frame`, a query over the table, restricted to the splits that may have selected rows.

    Tasks check that the files have not changed. Returns None if the splits cannot be pruned.
    """
    from pyspark.sql import functions as f

    pruned = hadoop_splits.pruned(spark, frame, reading.results, always=not request.must_pay)
    if pruned is None:
        return None
    tasks = [task(reading, lookup, (), check_only=True) for lookup in reading.results.lookups]
    checks = task_rows(spark, request, reading, tasks)
    if checks is None:
        return pruned
    return pruned.union(checks.select(*(f.lit(None).cast(c.dataType).alias(c.name) for c in frame.schema)))


def _uri(path: str) -> str:
    """Return a path as `_metadata.file_path` shows it; if it differs after all, the file is read needlessly."""
    scheme, _, rest = path.partition(":")
    return f"{scheme}:{percent(rest, safe=UNQUOTED)}"
