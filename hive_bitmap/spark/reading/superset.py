"""Read the rows of a plan, or a superset of them.

Our own tasks read the rows. If only Spark can read the files of the table, Spark's own reader reads them, and skips
the splits that have no selected block. In both cases the query applies the predicate to the rows.

Splits are skipped only in classic sessions. The partitions of the physical plan are Hadoop's splits, and Spark's
`PartitionPruningRDD` drops the splits without a selected block.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hive_bitmap.core.selecting.candidates import Lookup, LookupResults, restrict
from hive_bitmap.core.selecting.lookup_units import Longs
from hive_bitmap.core.selecting.split_order import Piece, cut, pieces_in_order
from hive_bitmap.core.table_info import Table, quote
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import metastore, protocol
from hive_bitmap.spark.preparing.prepare import Prepared
from hive_bitmap.spark.reading.read_task import ReadTask, read_batches
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.session_cache import TtlCache
from hive_bitmap.spark.tasks.distribution import distribute, parallelism, with_store_settings
from hive_bitmap.spark.tasks.worker_python import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)
MOST_SPLITS = 5000  # most splits to prune; the JVM takes a millisecond or two to describe each
NEARLY_ALL = 0.9  # share of the bytes; if more would remain, pruning costs more than it saves
_seen: TtlCache[tuple[str, str], tuple[Table, Mapping[str, str], StructType]] = TtlCache()
PIECE_BYTES = 1 << 20  # the weight of opening a file, when work is distributed over tasks


@dataclass(frozen=True)
class Split:
    """A byte range of a file."""

    path: str
    start: int
    length: int


@dataclass(frozen=True)
class Ranges:
    """The byte ranges of the selected blocks of a file.

    `start` and `end` are arrays with an item for each block.
    """

    start: Longs
    end: Longs

    def touch(self, split: Split) -> bool:
        """Return whether a record of a selected block may belong to the split.

        A line that starts at the first byte after a split still belongs to the split, as `next` in Hadoop's reader
        shows:
        https://github.com/apache/hadoop/blob/trunk/hadoop-mapreduce-project/hadoop-mapreduce-client/hadoop-mapreduce-client-core/src/main/java/org/apache/hadoop/mapred/LineRecordReader.java
        """
        return bool(np.any((self.start <= split.start + split.length) & (self.end >= split.start)))


def pruned_splits(spark: SparkSession, frame: DataFrame, results: LookupResults, *, always: bool) -> DataFrame | None:
    """Restrict a query to splits that may hold selected rows.

    `frame` is a query over the table, and has no shuffle. Splits of files that were not looked up are kept. Returns
    None if a partition of the plan is not a split, if there are more than MOST_SPLITS partitions, or if nearly all
    bytes would be kept. With `always`, nearly all bytes may be kept.
    """
    from pyspark.sql import DataFrame as Frame

    physical: Any = frame._jdf.queryExecution().toRdd()
    splits = _splits(physical.partitions())
    if splits is None:
        return None
    ranges = _ranges(results)
    selected = [n for n, split in enumerate(splits) if split.path not in ranges or ranges[split.path].touch(split)]
    total, remaining = (sum(splits[n].length for n in numbers) for numbers in (range(len(splits)), selected))
    if remaining > NEARLY_ALL * total and not always:
        return None
    log.info("%d of %d splits are read, %d of %d bytes", len(selected), len(splits), remaining, total)
    jvm: Any = spark._jvm
    chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.HashSet(selected)).toSet()
    rdd = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(physical, chosen)
    session: Any = spark._jsparkSession
    return Frame(session.internalCreateDataFrame(rdd, frame._jdf.schema(), False), spark)


def _splits(partitions: Any) -> list[Split] | None:
    """Return the partitions of a plan as splits.

    Return None if there are too many partitions, or if a partition is not a split.
    """
    if len(partitions) > MOST_SPLITS:
        return None
    splits = []
    for partition in partitions:
        if _class_name(partition) == "UnionPartition":  # a partitioned table is a union of its partitions
            partition = partition.parentPartition()
        if _class_name(partition) != "HadoopPartition":
            return None
        path, _, place = partition.inputSplit().value().toString().rpartition(":")
        start, plus, length = place.partition("+")
        if not plus:
            return None
        splits.append(Split(path, int(start), int(length)))
    return splits


def _class_name(partition: Any) -> str:
    return str(partition.getClass().getSimpleName())


def _ranges(results: LookupResults) -> Mapping[str, Ranges]:
    """Return the byte ranges of the selected blocks, by path.

    A file is left out if it is read whole for at least one of its partitions, or if the index of the file is damaged.
    """
    starts: dict[str, list[Longs]] = defaultdict(list)
    ends: dict[str, list[Longs]] = defaultdict(list)
    read_whole = {file.status.path for file in results.whole_files}
    for lookup, candidates in results.pairs():
        unit = lookup.unit
        selected = np.flatnonzero(candidates.counts > 0)
        for number, path in enumerate(unit.paths):
            blocks = selected[unit.file[selected] == number]
            starts[path].append(unit.offset[blocks])
            ends[path].append(unit.offset[blocks] + unit.length[blocks])
        read_whole |= {unit.paths[number] for number in candidates.damaged}
    paths = starts.keys() - read_whole
    return {path: Ranges(np.concatenate(starts[path]), np.concatenate(ends[path])) for path in paths}


def schema_of(spark: SparkSession, name: str, base: Table, settings: Mapping[str, str]) -> StructType:
    """Return the schema of `spark.table(name)`.

    `base` describes the table in the metastore. Spark caches tables. If Spark's schema differs from the schema of
    `base`, because another session has altered the table, Spark has to read the table again. The result is cached for
    INDEX_CACHE_SECONDS, as long as `base` and the settings stay the same, because analysing a table takes as long as
    planning a small query.
    """
    key = (base.database, base.name)
    cached = _seen.get(spark, key, catalog.INDEX_CACHE_SECONDS)
    if cached is not None and cached[:2] == (base, settings):
        return cached[2]
    schema = spark.table(name).schema
    if _types(schema) != {column.name.lower(): column.type for column in (*base.columns, *base.partition_columns)}:
        metastore.forget_files(spark, base)
        schema = spark.table(name).schema
    _seen.put(spark, key, (base, settings, schema))
    return schema


def _types(schema: StructType) -> dict[str, str]:
    return {column.name.lower(): column.type for column in protocol.columns_of(schema.jsonValue())}


def split_rows(spark: SparkSession, prepared: Prepared) -> DataFrame | None:
    """Read only the splits of a SerDe table that may have selected rows.

    Return a DataFrame of the requested columns; Spark reads the rows. Return None if Spark has to read all splits, or
    if the table is partitioned.
    """
    if prepared.results is None or prepared.resolved.base.partition_columns:
        return None  # the splits would be fixed before Spark prunes partitions by the query's conditions
    return _engine_splits(spark, prepared, _columns(spark.table(prepared.request.table), prepared))


def piece_rows(spark: SparkSession, prepared: Prepared, pieces: Sequence[Piece]) -> DataFrame:
    """Return the requested columns of the selected rows in `pieces`.

    `pieces` are the blocks to read, by split. Rows are in the order of the pieces. Raises Unsupported for a column that
    the session does not see, and for a type that PySpark does not accept from tasks.
    """
    tasks = tasks_of(prepared, pieces, min(parallelism(spark), prepared.plan.row_tasks or 1))
    return _columns(task_rows(spark, prepared, tasks), prepared)


def task_rows(spark: SparkSession, prepared: Prepared, tasks: Sequence[ReadTask]) -> DataFrame:
    """Return a DataFrame of the rows that the tasks read.

    Rows are in the order of the tasks, with the table's types. Raise Unsupported for a column that the session does not
    see, and for a type that PySpark does not accept from tasks.
    """
    from pyspark.sql.types import CharType, StructField, StructType, VarcharType, _parse_datatype_json_string

    base, request = prepared.resolved.base, prepared.request
    visible = schema_of(spark, request.table, base, prepared.resolved.conf)
    fields = {field.name.lower(): field for field in visible.fields}
    if unseen := [name for name in tasks[0].names if name.lower() not in fields]:
        raise Unsupported(f"the session does not see column {unseen[0]} of table {base.full_name}")
    for name, type in request.nested.items():  # types of the query: the optimizer may have left out fields
        if name.lower() in fields:
            named = fields[name.lower()].name
            fields[name.lower()] = StructField(named, _parse_datatype_json_string(type))
    schema = StructType([fields[name.lower()] for name in tasks[0].names])
    for field in schema.fields:  # these types occur with spark.sql.preserveCharVarcharTypeInfo
        if isinstance(field.dataType, (CharType, VarcharType)):
            raise Unsupported(
                f"PySpark accepts no column of type {field.dataType.simpleString()} from tasks: {field.name}"
            )
    return map_in_arrow(distribute(spark, tasks), with_store_settings(spark, read_batches), schema)


def tasks_of(prepared: Prepared, pieces: Sequence[Piece], at_once: int) -> list[ReadTask]:
    """Divide the pieces among at most `at_once` tasks that read about the same amount.

    A task reads consecutive pieces. The tasks are in the order of the pieces.
    """
    results = prepared.looked_up
    counts = [candidates.counts for candidates in results.results]
    lengths = [lookup.unit.length for lookup in results.lookups]
    weights = [
        PIECE_BYTES + int(lengths[piece.lookup][blocks][counts[piece.lookup][blocks] > 0].sum())
        for piece in pieces
        for blocks in [slice(piece.first, piece.end)]
    ]
    return [_restricted(task(prepared, results.lookups, pieces[start:end])) for start, end in cut(weights, at_once)]


def shared_tasks(prepared: Prepared, pieces: Sequence[Piece], at_once: int) -> list[ReadTask]:
    """Divide the pieces among at most `at_once` tasks for a single process.

    The tasks have the same lookups, so that the lookups are evaluated once.
    """
    [whole] = tasks_of(prepared, pieces, 1)
    count = len(whole.pieces)
    edges = [count * part // at_once for part in range(at_once + 1)]
    return [replace(whole, pieces=whole.pieces[a:b]) for a, b in pairwise(edges) if a < b]


def task(prepared: Prepared, lookups: Sequence[Lookup], pieces: Sequence[Piece], check_only: bool = False) -> ReadTask:
    """Return a task that reads `pieces`, which are parts of the files of `lookups`.

    With `check_only`, the task reads no rows, and only checks that the files are unchanged.
    """
    names = [column.name for column in (*prepared.resolved.base.columns, *prepared.resolved.base.partition_columns)]
    read = {column.name for column in prepared.columns} | set(prepared.constants.column_names)
    return ReadTask(
        format=prepared.format,
        columns=prepared.columns,
        constants=prepared.constants,
        names=tuple(name for name in names if name in read),
        lookups=tuple(lookups),
        pieces=tuple(pieces),
        matching_keys=prepared.looked_up.matching_keys,
        check_only=check_only,
    )


def _restricted(whole: ReadTask) -> ReadTask:
    """Return a task with only the lookups and files that its pieces need."""
    used = sorted({piece.lookup for piece in whole.pieces})
    lookups, moved = [], dict[int, tuple[int, dict[int, int], np.ndarray[tuple[int], np.dtype[np.int64]]]]()
    for number, lookup in enumerate(used):
        files = sorted({piece.file for piece in whole.pieces if piece.lookup == lookup})
        unit = whole.lookups[lookup].unit
        before = np.concatenate([[0], np.cumsum(np.isin(unit.file, files))])
        moved[lookup] = number, {file: at for at, file in enumerate(files)}, before
        lookups.append(restrict(whole.lookups[lookup], files))
    pieces = []
    for piece in whole.pieces:
        number, file, before = moved[piece.lookup]
        first, end = int(before[piece.first]), int(before[piece.end])
        pieces.append(replace(piece, lookup=number, file=file[piece.file], first=first, end=end))
    partitions = sorted({partition for lookup in lookups for partition in lookup.partitions})
    places = {partition: number for number, partition in enumerate(partitions)}
    renumbered = [
        replace(lookup, partitions=tuple(places[partition] for partition in lookup.partitions)) for lookup in lookups
    ]
    constants = whole.constants.take(pa.array(partitions, pa.int64()))
    return replace(whole, lookups=tuple(renumbered), pieces=tuple(pieces), constants=constants)


def _columns(frame: DataFrame, prepared: Prepared) -> DataFrame:
    return frame.select(*map(quote, prepared.request.columns))


def _engine_splits(spark: SparkSession, prepared: Prepared, frame: DataFrame) -> DataFrame | None:
    """Restrict a query to the splits that may have selected rows.

    `frame` is a query over the table. Tasks check that the files have not changed. Returns None if the splits cannot be
    pruned.
    """
    from pyspark.sql import functions as f

    results = prepared.looked_up
    pruned = pruned_splits(spark, frame, results, always=not prepared.request.must_pay)
    if pruned is None:
        return None
    pieces = [piece for piece in pieces_in_order(results, prepared.format, 0) or () if isinstance(piece, Piece)]
    if not pieces:
        return pruned
    tasks = tasks_of(prepared, pieces, parallelism(spark))
    checks = task_rows(spark, prepared, [replace(task, check_only=True) for task in tasks])
    return pruned.union(checks.select(*(f.lit(None).cast(c.dataType).alias(c.name) for c in frame.schema)))
