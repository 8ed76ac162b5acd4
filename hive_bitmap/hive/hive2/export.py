"""Write an index as files of an index table of Hive 2.

A Spark job has a task for each shard. Hive reads only the blocks that its index lists, so an exported index must cover
the current version of every base file. (An index of hive_bitmap itself may be stale.)
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.index import generation, generation_names, manifest
from hive_bitmap.core.index.definition import BUCKET, BY_NAME, Definition, check_name, valid_schemas
from hive_bitmap.core.index.fingerprint import COARSE_RESOLUTION, Fingerprint
from hive_bitmap.core.index.shard import CARDINALITY, let_read, shard_name, write
from hive_bitmap.core.indexing.shard_compaction import shard_rows
from hive_bitmap.core.listings import serde
from hive_bitmap.core.listings.file_listing import format_of
from hive_bitmap.core.segments.covered import Covered, Listing, Longs
from hive_bitmap.core.selecting.table_files import FileRecords
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.core.table_info import NULL_PARTITION, Table, raw_hadoop_path
from hive_bitmap.errors import FileChanged, HiveBitmapError, Unsupported
from hive_bitmap.hive.hive2.ddl import HiveIndex, HivePartition
from hive_bitmap.spark.metastore import metastore, permission
from hive_bitmap.spark.metastore.base_files import Source, require_one_listing, sources
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.tasks.distribution import cause, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "orc")  # their blocks belong to one split each; a block of other formats may extend into the next
# Hive 2 compares floats and timestamps differently from Spark. With hive.optimize.index.filter it loses rows of CHAR
# columns in Parquet, even without an index.
KEY_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "varchar", "date")
GREGORIAN = dt.date(1582, 10, 15)  # for earlier dates Hive 2 uses the Julian calendar


@dataclass(frozen=True, kw_only=True)
class Copy:
    """The work item of a task: copy rows of a shard.

    The rows of `files` in the shard at `path`, which has `size` bytes, are copied into a new shard in `folder`.
    `partition` is the position of the files' partition among the partitions of the table.
    """

    partition: int
    path: str
    size: int
    files: tuple[Fingerprint, ...]
    definition: Definition
    folder: str


def export(spark: SparkSession, table: str, index: str, root: str, name: str | None = None) -> HiveIndex:
    """Export the rows of an index for Hive 2.

    The rows are written into a new folder under `root`. `name` is the name of the index in Hive; the default is
    `hive_<index>`, because the index's own name is taken if Hive and Spark share a metastore.

    Raise NotFound for unknown names, and NotPermitted if only Spark may read the table. Raise Unsupported if Hive 2
    cannot read the index, if Hive 2 would return other rows with the index, or if the index does not cover the current
    version of all base files. Raise HiveBitmapError if a task fails, for example because a base file changes during the
    export, or because a key is a date before GREGORIAN.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    exported = catalog.named(base, indexes, index)
    _require_readable(base, exported)
    permission.require_reading(spark, base, exported.definition.column_names, "an export")
    definition = _without_aggregates(exported.definition)
    hive_name = check_name(name or f"hive_{exported.definition.name}")
    home = raw_hadoop_path(root if ":" in root.partition("/")[0] else "file:" + stores.absolute(root))
    home = f"{home}/{generation_names.new_name()}"
    columns = [column.name for column in base.partition_columns]
    partitions, copies = [], []
    base_sources = sources(spark, base)
    indexed = _indexed_files(spark, base, exported, base_sources)
    edges = np.cumsum([0, *(len(source.files) for source in base_sources)])
    accesses = generation.accesses([(source.folder, home) for source in base_sources])
    for number, (source, access) in enumerate(zip(base_sources, accesses, strict=True)):
        values = tuple(NULL_PARTITION if value is None else value for value in source.values)
        folder = generation_names.partition_folder(home, columns, values)
        partitions.append(
            HivePartition(values=values, base=source.folder, folder=folder, newest_ms=_newest(source), rows=0)
        )
        _require_complete(base, definition, source, indexed, range(edges[number], edges[number + 1]))
        files = np.arange(edges[number], edges[number + 1])
        copies += _copies(number, indexed, files, replace(definition, compression="gzip"), folder)
        stores.make_folder(parent(folder))
        stores.make_new_folder(folder, access)
    _wait_past(max((partition.newest_ms for partition in partitions), default=0))
    rows = _run(spark, copies, len(partitions))
    counted = tuple(replace(partition, rows=count) for partition, count in zip(partitions, rows, strict=True))
    return HiveIndex(
        definition=definition,
        name=hive_name,
        root=home,
        partition_columns=tuple(base.partition_columns),
        partitions=counted,
    )


def _without_aggregates(definition: Definition) -> Definition:
    """Return an index's definition without aggregates; AGGREGATE becomes COMPACT."""
    return replace(definition, type="COMPACT" if definition.counts_files else definition.type, aggregates=())


def _require_readable(base: Table, index: Index) -> None:
    definition = index.definition
    if index.problem:
        raise Unsupported(index.problem)
    if base.lake is not None:
        raise Unsupported(
            f"table {base.full_name} is a {base.lake.kind} table: Hive 2 reads other files of it than Spark does"
        )
    if (format := format_of(base)) not in FORMATS:
        raise Unsupported(f"table {base.full_name} is stored as {format}: create an index in Hive itself instead")
    if definition.expressions:
        raise Unsupported(
            f"index {definition.name} has {definition.expressions[0]}, and keys of Hive's indexes are columns"
        )
    if definition.where:
        raise Unsupported(
            f"index {definition.name} covers only WHERE {definition.where}, and Hive indexes have no condition"
        )
    if definition.has_bitmaps and definition.encoding != "ewah":
        raise Unsupported(
            f"index {definition.name} has the encoding {definition.encoding}, and Hive reads ewah only: "
            f"hive-bitmap set {base.name} {definition.name} encoding=ewah, then rebuild"
        )
    for column in definition.columns:
        if column.type.partition("(")[0] not in KEY_TYPES:
            raise Unsupported(
                f"column {column.name!r} is {column.type}: for this type Hive 2 would return other rows than Spark"
            )


def _indexed_files(spark: SparkSession, base: Table, index: Index, base_sources: Sequence[Source]) -> FileRecords:
    """Return what an index records about the files of all partitions.

    `base_sources` are the partitions of the base table with their files. The result has the files in the order of
    `base_sources`.
    """
    covered = Covered.by([manifest.read(folder) for folder in catalog.segments(spark, index)])
    listing = Listing.of((source.values, source.files) for source in base_sources)
    numbers = np.array([covered.numbers.get(values, -1) for values in listing.partitions], np.int64)
    schemas = valid_schemas(format_of(base), base.columns, metastore.time_zone(spark), serde.read_properties(base))
    if schemas is not None:  # Hive 2 does not find the columns of all ORC files by name
        schemas -= {BY_NAME}
    return FileRecords.of(covered, listing, numbers, schemas)


def _require_complete(
    base: Table, definition: Definition, source: Source, indexed: FileRecords, numbers: Sequence[int]
) -> None:
    """Require that an index covers the current files of a partition.

    `source` is the partition. `indexed` has what the index records about the files of all partitions. `numbers` has the
    position in `indexed` of each file of this partition. Raise Unsupported if a file is missing from the index or has
    changed, or if Hive may read files that Spark does not read.
    """
    require_one_listing(source)
    rebuild = f"hive-bitmap rebuild {base.full_name} {definition.name}"
    for number, file in zip(numbers, source.files, strict=True):
        row = int(indexed.row[number])
        if row >= 0 and indexed.same[number] and indexed.covered.shard_of[row] < 0:
            reason = indexed.covered.files["reason"][row].as_py()
            raise Unsupported(f"{file.path} could not be indexed, and Hive would miss its rows: {reason}")
        if not indexed.fresh[number]:
            raise Unsupported(f"index {definition.name} does not have the current version of {file.path}: {rebuild}")


def _copies(number: int, indexed: FileRecords, files: Longs, definition: Definition, folder: str) -> list[Copy]:
    """Return a work item for each shard that has rows of these files.

    `files` are the positions of these files in `indexed`. All files belong to the partition at the position `number`,
    and the index must cover all of them. `folder` is the folder for the new shards.
    """
    copies = []
    for shard in np.unique(indexed.shard[files]).tolist():
        rows = indexed.row[files[indexed.shard[files] == shard]]
        stored = indexed.covered.shards.slice(shard, 1).to_pylist()[0]
        described = indexed.covered.files.take(pa.array(rows)).to_pylist()
        copies.append(
            Copy(
                partition=number,
                path=stored["shard"],
                size=stored["size"],
                files=tuple(map(Fingerprint.of, described)),
                definition=definition,
                folder=folder,
            )
        )
    return copies


def _newest(source: Source) -> int:
    """Return the newest modification time of visible files in a partition's folder, in ms.

    Return 0 if there are no files. Hive compares this time with the time in the index.
    """
    listed = stores.listing(source.folder).files if stores.exists(source.folder) else []
    visible = [file.mtime_ms for file in listed if not file.path.rpartition("/")[2].startswith(("_", "."))]
    return max(visible, default=0)


def _wait_past(newest_ms: int) -> None:
    """Wait until the clock is past a modification time, in milliseconds since 1970.

    After the wait, any change of a file gets a later time, even if Hive's Java sees whole seconds only. Raise
    Unsupported if the time is in the future.
    """
    wait = newest_ms / 1000 + COARSE_RESOLUTION - time.time()
    if wait > COARSE_RESOLUTION:
        raise Unsupported("the modification time of a base file is ahead of this machine's clock: check the clocks")
    time.sleep(max(0.0, wait))


def _run(spark: SparkSession, copies: Sequence[Copy], partitions: int) -> list[int]:
    """Run the copies in Spark tasks; return the rows written for each partition.

    There are `partitions` partitions.
    """
    rows = [0] * partitions
    try:
        counts = in_tasks(spark, copies, _copy)
    except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
        raise HiveBitmapError(f"the export failed: {cause(e)}") from e
    for copy, count in zip(copies, counts, strict=True):
        rows[copy.partition] += count
    return rows


def _copy(copy: Copy) -> int:
    """Inside a task: write the rows of a copy, and return the number of rows."""
    rows = _rows(copy)
    if rows.num_rows:
        path = f"{copy.folder}/{shard_name(copy.folder)}"
        write(path, rows, copy.definition)
        let_read(path, [copy.path])
    return rows.num_rows


def _rows(copy: Copy) -> pa.Table:
    rows = shard_rows(copy.definition, copy.path, copy.size)
    paths = pa.array([file.path for file in copy.files], BUCKET.type)
    for file in copy.files:
        if not file.confirmed():
            raise FileChanged(f"{file.path} was replaced: rebuild the index and export it again")
    copied = rows.filter(pc.is_in(rows[BUCKET.name], value_set=paths))
    for column in copy.definition.columns:
        first = pc.min(copied[column.name]).as_py() if column.type == "date" else None
        if first is not None and first < GREGORIAN:
            raise Unsupported(f"column {column.name!r} has the date {first}, which Hive 2 reads as another day")
    return copied.drop_columns([CARDINALITY.name]) if CARDINALITY.name in copied.column_names else copied
