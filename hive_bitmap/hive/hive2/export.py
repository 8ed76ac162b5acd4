"""Writing an index as files of an index table of Hive 2, in a Spark job with one task for each shard.

Hive reads only the blocks that its index lists, so an exported index must cover every base file as it is now; an index
of hive_bitmap may be out of date.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.index import generation, manifest
from hive_bitmap.core.index.definition import BUCKET, BY_NAME, Definition, check_name, valid_schemas
from hive_bitmap.core.index.fingerprint import COARSE_RESOLUTION, Fingerprint
from hive_bitmap.core.index.manifest import Freshness, Manifest
from hive_bitmap.core.index.shard import CARDINALITY, let_read, write
from hive_bitmap.core.index.table_schema import shard_name
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.core.table_info import NULL_PARTITION, Table, raw_hadoop_path
from hive_bitmap.errors import FileChanged, HiveBitmapError, Unsupported
from hive_bitmap.hive.hive2.ddl import HiveIndex, HivePartition
from hive_bitmap.spark.building.shard_compaction import shard_rows
from hive_bitmap.spark.metastore import metastore, permission, serde
from hive_bitmap.spark.metastore.base_files import Source, require_one_listing, sources
from hive_bitmap.spark.metastore.file_listing import format_of
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
    """Work item of a task: a shard, the base files whose rows are to be copied from it, and the target folder."""

    partition: int
    path: str
    size: int
    files: tuple[Fingerprint, ...]
    definition: Definition
    folder: str


def export(spark: SparkSession, table: str, index: str, root: str, name: str | None = None) -> HiveIndex:
    """Write the rows of an index into a new folder under `root`, for Hive 2, where the index will be called `name`.

    The default name is `hive_<index>`, because the index's own name is taken if Hive and Spark share a metastore. Raise
    NotFound for unknown names; Unsupported for an index that Hive 2 cannot read, for which it would return other rows,
    or that does not cover all base files as they are now; and FileChanged if a base file changes meanwhile.
    """
    base, indexes = catalog.table_and_indexes(spark, table)
    found = catalog.named(base, indexes, index)
    _require_readable(base, found)
    permission.require_reading(spark, base, found.definition.column_names, "an export")
    definition, called = found.definition, check_name(name or f"hive_{found.definition.name}")
    home = raw_hadoop_path(root if ":" in root.partition("/")[0] else "file:" + stores.absolute(root))
    home = f"{home}/{generation.new_name()}"
    states, columns = catalog.published_generations(spark, found), [column.name for column in base.partition_columns]
    partitions, copies = [], []
    found_sources = sources(spark, base)
    accesses = generation.accesses([(source.folder, home) for source in found_sources])
    for number, (source, access) in enumerate(zip(found_sources, accesses, strict=True)):
        values = tuple(NULL_PARTITION if value is None else value for value in source.values)
        folder = generation.partition_folder(home, columns, values)
        partitions.append(
            HivePartition(values=values, base=source.folder, folder=folder, newest_ms=_newest(source), rows=0)
        )
        published = _complete_manifest(spark, base, definition, source, states.get(source.values))
        copies += _copies(number, source, published, replace(definition, compression="gzip"), folder)
        stores.make_folder(parent(folder))
        stores.make_new_folder(folder, access)
    _wait_past(max((partition.newest_ms for partition in partitions), default=0))
    rows = _run(spark, copies, len(partitions))
    counted = tuple(replace(partition, rows=count) for partition, count in zip(partitions, rows, strict=True))
    return HiveIndex(
        definition=definition,
        name=called,
        root=home,
        partition_columns=tuple(base.partition_columns),
        partitions=counted,
    )


def _require_readable(base: Table, index: Index) -> None:
    definition = index.definition
    if index.problem:
        raise Unsupported(index.problem)
    if base.lake is not None:
        raise Unsupported(f"table {base.full_name} is {base.lake.kind}, of which Hive 2 reads other files than Spark")
    if (format := format_of(base)) not in FORMATS:
        raise Unsupported(f"table {base.full_name} is stored as {format}: of such tables Hive's own indexes are right")
    if definition.where:
        raise Unsupported(f"index {definition.name} covers only WHERE {definition.where}, which Hive cannot know")
    if definition.has_bitmaps and definition.encoding != "ewah":
        raise Unsupported(
            f"index {definition.name} has the encoding {definition.encoding}, and Hive reads ewah only: "
            f"hive-bitmap set {base.name} {definition.name} encoding=ewah, then rebuild"
        )
    for column in definition.columns:
        if column.type.partition("(")[0] not in KEY_TYPES:
            raise Unsupported(
                f"column {column.name!r} is {column.type}, of which Hive 2 would give other rows than Spark"
            )


def _complete_manifest(
    spark: SparkSession, base: Table, definition: Definition, source: Source, folder: str | None
) -> Manifest | None:
    """Return the manifest of a partition, None if that has no base files.

    Raise Unsupported unless the manifest covers all base files as they are now.
    """
    require_one_listing(source)
    if not source.files:
        return None
    rebuild = f"hive-bitmap rebuild {base.full_name} {definition.name}"
    if folder is None or not generation.belongs_to(folder, definition):
        raise Unsupported(f"index {definition.name} does not cover {source.folder}: {rebuild}")
    published = manifest.read(folder)
    zone, reading = metastore.time_zone(spark), serde.read_properties(base)
    schemas = valid_schemas(format_of(base), base.columns, zone, reading)
    if schemas is not None:  # Hive 2 does not find the columns of all ORC files by name
        schemas -= {BY_NAME}
    for file in source.files:
        row = published.row_of.get(file.path)
        known = row is not None and published.fingerprints[row].matches(file)
        if row is not None and known and published.shard_of[row] is None:
            reason = published.files["reason"][row].as_py()
            raise Unsupported(f"{file.path} could not be indexed, and Hive would miss its rows: {reason}")
        if published.freshness(file, schemas) is not Freshness.FRESH:
            raise Unsupported(f"index {definition.name} does not know {file.path} as it is now: {rebuild}")
    return published


def _copies(number: int, source: Source, published: Manifest | None, definition: Definition, folder: str) -> list[Copy]:
    if published is None:
        return []
    of_shard: dict[str, list[Fingerprint]] = {}
    for file in source.files:
        row = published.row_of[file.path]
        of_shard.setdefault(str(published.shard_of[row]), []).append(published.fingerprints[row])
    return [
        Copy(
            partition=number,
            path=published.shard_path(shard),
            size=published.sizes[shard],
            files=tuple(files),
            definition=definition,
            folder=folder,
        )
        for shard, files in of_shard.items()
    ]


def _newest(source: Source) -> int:
    """Return the newest modification time (ms) of the files that Hive compares with an index: all but hidden ones."""
    listed = stores.listing(source.folder).files if stores.exists(source.folder) else []
    visible = [file.mtime_ms for file in listed if not file.path.rpartition("/")[2].startswith(("_", "."))]
    return max(visible, default=0)


def _wait_past(newest_ms: int) -> None:
    """Wait until no later change can have this modification time: Hive's Java may see whole seconds only."""
    wait = newest_ms / 1000 + COARSE_RESOLUTION - time.time()
    if wait > COARSE_RESOLUTION:
        raise Unsupported("a base file was changed at a time that lies ahead of this machine's clock")
    time.sleep(max(0.0, wait))


def _run(spark: SparkSession, copies: Sequence[Copy], partitions: int) -> list[int]:
    """Run the copies in Spark tasks; return the number of rows written for each partition."""
    rows = [0] * partitions
    try:
        counts = in_tasks(spark, copies, _copy)
    except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
        raise HiveBitmapError(f"the export failed: {cause(e)}") from e
    for copy, count in zip(copies, counts, strict=True):
        rows[copy.partition] += count
    return rows


def _copy(copy: Copy) -> int:
    """Inside a task: write the rows of a shard; return how many there are."""
    rows = _rows(copy)
    if rows.num_rows:
        path = f"{copy.folder}/{shard_name(copy.folder)}"
        write(path, rows, copy.definition)
        let_read(path, [copy.path])
    return rows.num_rows


def _rows(copy: Copy) -> pa.Table:
    rows = shard_rows(copy.definition, copy.path, copy.size)
    known = pa.array([file.path for file in copy.files], BUCKET.type)
    for file in copy.files:
        if not file.confirmed():
            raise FileChanged(f"{file.path} was replaced: rebuild the index and export it again")
    kept = rows.filter(pc.is_in(rows[BUCKET.name], value_set=known))
    for column in copy.definition.columns:
        first = pc.min(kept[column.name]).as_py() if column.type == "date" else None
        if first is not None and first < GREGORIAN:
            raise Unsupported(f"column {column.name!r} holds {first}, which Hive 2 takes for another day")
    return kept.drop_columns([CARDINALITY.name]) if CARDINALITY.name in kept.column_names else kept
