"""The entry points of a query: `plan` says how it is answered, `scan` gives the rows, both for whatever Spark can read.

The predicate is always asked again of the rows that come back: the index prunes, the engine decides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote as percent

import numpy as np

from hive_bitmap.errors import Unsupported
from hive_bitmap.explaining.plan import FILES, FULL_SCAN, INDEX_ONLY, Plan
from hive_bitmap.formats import LAYOUTS
from hive_bitmap.metastore.table_info import literal, quote
from hive_bitmap.planning.planner import needs_file
from hive_bitmap.planning.prepare import Prepared, Reading, prepare
from hive_bitmap.planning.request import Request, analysed
from hive_bitmap.planning.spark_types import schema_of
from hive_bitmap.predicates.spark_conditions import satisfying
from hive_bitmap.reading import hadoop_splits
from hive_bitmap.reading.read_task import ReadTask, read_batches
from hive_bitmap.selecting.candidates import Lookup, WholeFile, restrict
from hive_bitmap.tasks.distribution import distribute, in_stores, parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)
UNQUOTED = "/;:@&=+$,-_.!~*'()"  # what java.net.URI leaves as it is in a path


def plan(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    count: bool = False,
    strategy: str | None = None,
) -> Plan:
    """How `scan` (or, with `count`, `hive_bitmap.count`) would answer now; `str()` of it is what EXPLAIN prints.

    `predicate` is a condition in Spark SQL, None for all rows; `columns` are those to fetch, None for all. `strategy`
    overrides the choice by cost: `index only`, `rows`, `blocks`, `files` or `full scan`. No row of the table is read.
    Raises NotFound for an unknown table or column and InvalidPredicate for a predicate that is not SQL.
    """
    request = _request(table, predicate, columns, count, strategy)
    analysed(spark, request)
    return prepare(spark, request).plan


def scan(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    strategy: str | None = None,
) -> DataFrame:
    """`spark.table(table).where(predicate)`, of these columns, through the index where that pays.

    Rows, types and NULLs are Spark's own. The files are looked at again when the DataFrame runs: one that was replaced
    in between is read whole or stops the query with FileChanged. `strategy` overrides the choice by cost where an index
    serves the predicate. Raises what `plan` raises, and Unsupported for a strategy that cannot answer.
    """
    request = replace(_request(table, predicate, columns, False, strategy), must_pay=True)
    prepared = prepare(spark, request)
    log.info("%s where %s: %s (%s)", table, predicate, prepared.plan.strategy, prepared.plan.reason)
    return rows(spark, request, prepared)


def rows(spark: SparkSession, request: Request, prepared: Prepared) -> DataFrame:
    """The rows of a prepared request."""
    reading, strategy = prepared.reading, prepared.plan.strategy
    if reading is None or strategy in (FULL_SCAN, INDEX_ONLY):
        return analysed(spark, request)
    if reading.format in LAYOUTS:
        whole = analysed(spark, request)
        kept = _engine_splits(spark, request, reading, whole)
        return whole if kept is None else kept
    frame = _read(spark, request, reading, strategy)
    if frame is not None:
        found = narrowed(frame, request, reading, request.columns or _schema(spark, request, reading).names)
        if found is not None:
            return found
    return analysed(spark, request)


def narrow(spark: SparkSession, request: Request, prepared: Prepared) -> DataFrame | None:
    """The requested columns of every row that satisfies the predicate, and maybe of others; None where all are read.

    For a query that asks the predicate itself.
    """
    reading, strategy = prepared.reading, prepared.plan.strategy
    if reading is None or strategy in (FULL_SCAN, INDEX_ONLY):
        return None
    if reading.format in LAYOUTS and reading.resolved.base.partition_columns:
        return None  # fixed splits would not follow what the query says of partitions
    if reading.format in LAYOUTS:
        return _engine_splits(spark, request, reading, _columns(spark.table(request.table), request))
    frame = _read(spark, request, reading, strategy)
    if frame is None:
        return None if strategy == FILES else _columns(spark.table(request.table).where("FALSE"), request)
    return _columns(frame, request)


def direct_rows(spark: SparkSession, request: Request, reading: Reading, tasks: Sequence[ReadTask]) -> DataFrame | None:
    """What the tasks read of a table, with its own column types; None if there is nothing to read."""
    from pyspark.sql.types import StructType

    if not tasks:
        return None
    fields = {field.name.lower(): field for field in _schema(spark, request, reading).fields}
    if strange := [name for name in tasks[0].names if name.lower() not in fields]:
        raise Unsupported(f"the session does not see column {strange[0]} of table {reading.resolved.base.full_name}")
    schema = StructType([fields[name.lower()] for name in tasks[0].names])
    return distribute(spark, tasks).mapInArrow(in_stores(spark, read_batches), schema)


def narrowed(frame: DataFrame, request: Request, reading: Reading, columns: Sequence[str]) -> DataFrame | None:
    """The predicate of the request and these columns over rows that were read; None where only the table has them."""
    from pyspark.errors import AnalysisException

    try:
        found = frame.alias(reading.resolved.base.name)
        if request.predicate is not None:
            found = satisfying(found, request.predicate)
        if found.columns != list(columns):  # Spark Connect, too, analyses when it is asked for them
            found = found.select(*map(quote, columns))
        return found
    except AnalysisException:  # it names the database
        return None


def task(reading: Reading, lookup: Lookup | None, whole: Sequence[WholeFile], check_only: bool = False) -> ReadTask:
    """A task for files of one partition."""
    partition = lookup.partition if lookup is not None else whole[0].partition
    names = [column.name for column in (*reading.resolved.base.columns, *reading.resolved.base.partition_columns)]
    read = {column.name for column in reading.columns} | set(reading.constants.column_names)
    return ReadTask(
        reading.format,
        reading.columns,
        reading.constants.slice(partition, 1),
        tuple(name for name in names if name in read),
        lookup,
        tuple(file.status for file in whole),
        reading.answers,
        check_only,
    )


def _request(
    table: str, predicate: str | None, columns: Sequence[str] | None, count: bool, strategy: str | None
) -> Request:
    return Request(table, predicate, None if columns is None else tuple(columns), count, strategy)


def _schema(spark: SparkSession, request: Request, reading: Reading) -> StructType:
    return schema_of(spark, request.table, reading.resolved.base, reading.resolved.settings)


def _read(spark: SparkSession, request: Request, reading: Reading, strategy: str) -> DataFrame | None:
    """What the plan reads, before the predicate; None for no row, or by FILES for all."""
    if strategy == FILES:
        return _engine_rows(spark, request, reading)
    return direct_rows(spark, request, reading, tasks_of(spark, reading))


def _columns(frame: DataFrame, request: Request) -> DataFrame:
    return frame if request.columns is None else frame.select(*map(quote, request.columns))


def tasks_of(spark: SparkSession, reading: Reading) -> list[ReadTask]:
    """All lookups, in pieces enough for the cluster, and the files to be read whole."""
    work = reading.results
    pieces = -(-parallelism(spark) // max(len(work.lookups), 1))
    tasks = [
        task(reading, restrict(lookup, files.tolist()), ())
        for lookup in work.lookups
        for files in np.array_split(np.arange(len(lookup.unit.paths)), pieces)
        if len(files)
    ]
    return tasks + [task(reading, None, [file]) for file in work.whole]


def _engine_rows(spark: SparkSession, request: Request, reading: Reading) -> DataFrame | None:
    """The table without the files that hold nothing, and tasks that look that these are still what they were."""
    needed = {file.status.path for file in reading.results.whole}
    skipped: list[Lookup] = []
    for lookup, found in zip(reading.results.lookups, reading.results.found, strict=True):
        wanted = needs_file(found, lookup)
        needed |= {lookup.unit.paths[file] for file in np.flatnonzero(wanted)}
        if not wanted.all():
            skipped.append(restrict(lookup, np.flatnonzero(~wanted).tolist()))
    paths = [path for lookup in skipped for path in lookup.unit.paths if path not in needed and "\n" not in path]
    if not paths:
        return None
    listed = literal("\n".join(_uri(path) for path in paths))
    checks = direct_rows(spark, request, reading, [task(reading, lookup, (), check_only=True) for lookup in skipped])
    frame = spark.table(request.table).where(f"NOT array_contains(split({listed}, '\\n'), _metadata.file_path)")
    return frame if checks is None else frame.select(*map(quote, checks.columns)).union(checks)


def _engine_splits(spark: SparkSession, request: Request, reading: Reading, frame: DataFrame) -> DataFrame | None:
    """What Spark reads for `frame`, a query of the table, of the splits that may hold selected rows.

    And tasks look whether the files have changed.
    """
    from pyspark.sql import functions as f

    kept = hadoop_splits.pruned(spark, frame, reading.results, always=request.strategy is not None)
    if kept is None:
        return None
    tasks = [task(reading, lookup, (), check_only=True) for lookup in reading.results.lookups]
    checks = direct_rows(spark, request, reading, tasks)
    if checks is None:
        return kept
    return kept.union(checks.select(*(f.lit(None).cast(c.dataType).alias(c.name) for c in frame.schema)))


def _uri(path: str) -> str:
    """A path as `_metadata.file_path` shows it; one that it shows otherwise is read in vain, never missed."""
    scheme, _, rest = path.partition(":")
    return f"{scheme}:{percent(rest, safe=UNQUOTED)}"
