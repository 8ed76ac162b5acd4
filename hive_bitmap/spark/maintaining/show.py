"""Show which base files a table's indexes cover, and what is wrong with the indexes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core import stores, table_info
from hive_bitmap.core.explaining.measures import by_reason, counted, moment, or_dash, reasons, size
from hive_bitmap.core.explaining.reports import INDEX_FIELDS, Field, Report, Reports, figure, record_of, texts_of
from hive_bitmap.core.index import generation_names, manifest, refresh_record, roots
from hive_bitmap.core.index.definition import Definition, schema_crc, valid_schemas
from hive_bitmap.core.index.manifest import CHANGED, COLUMNS_CHANGED, NEW, UNBUILT, Manifest
from hive_bitmap.core.index.refresh_record import RefreshRecord
from hive_bitmap.core.listings import serde
from hive_bitmap.core.listings.file_listing import format_of, is_visible
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.segments import slots
from hive_bitmap.core.segments.covered import Covered, Listing, Longs
from hive_bitmap.core.selecting.table_files import FileRecords
from hive_bitmap.core.table_info import Table, Values, quote
from hive_bitmap.errors import CorruptIndex, Unsupported
from hive_bitmap.spark.metastore import base_files, metastore, permission
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.registry.coverage import covered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATES = ("fresh", "stale", "unindexed", "gone")  # of base files
_STATUS_FIELDS = (
    *map(figure, STATES),
    Field("stale_bytes"),
    Field("unindexed_bytes"),
    figure("base_rows", "rows"),
    Field("index_rows"),
    figure("index_bytes", "size", size),
    Field("keys", optional=True),
    Field("built", "last build", or_dash, of=lambda status: None if status.built is None else moment(status.built)),
)


@dataclass(frozen=True, kw_only=True)
class PartitionStatus:
    """The state of one partition of an index.

    `name` is like `p=1/q=x`, and empty for an unpartitioned table. A segment may have rows of many partitions, so
    `index_rows` and `index_bytes` are estimated by the share of the partition in its base rows.

    `fresh`, `stale`, `unindexed` and `gone` are numbers of base files: files for which the index can be used, files
    that have changed since they were indexed or are now read in another way, files that are not in the index, and
    deleted files that are in the index. `built` is when the last build began, in seconds since 1970; None if the
    partition was not built. `unseen_since` is the time of the oldest file change that is not in the index, in seconds
    since 1970; None without such a change, or if the log of the table does not record the time. `keys` is the number of
    distinct keys; None if it was not requested. The next rebuild reads `to_read` files of `bytes_to_read` bytes;
    `why_read` has the number of these files for each reason. Numbers of rows are None if only Spark may read the table.
    """

    _fields: ClassVar[tuple[Field, ...]] = (Field("partition", "partition", of="name"), *_STATUS_FIELDS)

    name: str
    values: Values
    fresh: int
    stale: int
    unindexed: int
    gone: int
    stale_bytes: int
    unindexed_bytes: int
    base_rows: int | None
    index_rows: int | None
    index_bytes: int
    built: float | None
    unseen_since: float | None = None
    keys: int | None = None
    to_read: int = 0
    bytes_to_read: int = 0
    why_read: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class IndexStatus(Report):
    """The state of one index: its partitions, and sums over all partitions.

    Partitions that the WHERE of the index excludes are left out, unless the index still has files of them. `problem`
    says why queries cannot use the index or parts of it; "" if they can use all of it. `keys` is the number of distinct
    keys; None if it was not requested. `last_refresh` is the last recorded refresh after writes; None without a record.
    `segments` is the number of segments. `dead_rows` is the number of base rows of deleted files, which only SQL
    queries of the index table see; None if only Spark may read the table.
    """

    _fields: ClassVar[tuple[Field, ...]] = (
        *INDEX_FIELDS,
        *_STATUS_FIELDS,
        Field("location", of="definition.root"),
        *(
            Field(name, of=f"definition.{name}")
            for name in ("comment", "where", "enabled", "auto_refresh", "refresh_interval", "keep_removed")
        ),
        Field("lag_seconds", of=lambda status: round(status.lag)),
        Field("last_refresh", of=lambda status: _refresh_record(status.last_refresh)),
        Field("next_rebuild"),
        Field("files_to_read", of="to_read"),
        *map(Field, ("bytes_to_read", "problem", "segments", "dead_rows")),
        Field("partitions", of=lambda status: [record_of(partition) for partition in status.partitions]),
    )

    definition: Definition
    partitions: tuple[PartitionStatus, ...]
    problem: str = ""
    keys: int | None = None
    last_refresh: RefreshRecord | None = None
    segments: int = 0
    dead_rows: int | None = 0

    def __repr__(self) -> str:
        return f"IndexStatus({self})"

    def __str__(self) -> str:
        definition = self.definition
        counts = ((getattr(self, name), name) for name in STATES)
        files = ", ".join(f"{count:,} {name}" for count, name in counts if count) or "no"
        summary = f"{definition.name} on {definition.full_table} ({', '.join(definition.key_texts)}): {files} files"
        return "; ".join([f"{summary}, {size(self.index_bytes)}", *filter(None, [self.next_rebuild, self.problem])])

    def _cells(self) -> dict[str, str]:
        return texts_of(self, "index", "columns", "encoding", *STATES, "index_bytes", "built") | {
            "encoding": self.definition.bitmap_encoding or self.definition.type,
            "last build": "" if self.built is None else moment(self.built),
            "note": "; ".join(filter(None, [self.next_rebuild, self.problem])),
        }

    @property
    def fresh(self) -> int:
        return sum(partition.fresh for partition in self.partitions)

    @property
    def stale(self) -> int:
        return sum(partition.stale for partition in self.partitions)

    @property
    def unindexed(self) -> int:
        return sum(partition.unindexed for partition in self.partitions)

    @property
    def gone(self) -> int:
        return sum(partition.gone for partition in self.partitions)

    @property
    def stale_bytes(self) -> int:
        return sum(partition.stale_bytes for partition in self.partitions)

    @property
    def unindexed_bytes(self) -> int:
        return sum(partition.unindexed_bytes for partition in self.partitions)

    @property
    def to_read(self) -> int:
        """How many files the next rebuild reads."""
        return sum(partition.to_read for partition in self.partitions)

    @property
    def bytes_to_read(self) -> int:
        return sum(partition.bytes_to_read for partition in self.partitions)

    @property
    def next_rebuild(self) -> str:
        """A sentence on what the next rebuild reads, and why.

        The sentence is "" if the rebuild reads nothing.
        """
        why = reasons(by_reason(partition.why_read for partition in self.partitions))
        if not why:
            return ""
        return f"the next rebuild reads {counted(self.to_read, 'file')} of {size(self.bytes_to_read)} ({why})"

    @property
    def unseen_since(self) -> float | None:
        """The time of the oldest unindexed change, in seconds since 1970; None without a change."""
        return min(
            (partition.unseen_since for partition in self.partitions if partition.unseen_since is not None),
            default=None,
        )

    @property
    def lag(self) -> float:
        """The age of the oldest unindexed change, in seconds; 0 without a change."""
        return 0.0 if self.unseen_since is None else max(time.time() - self.unseen_since, 0.0)

    @property
    def base_rows(self) -> int | None:
        return _sum([partition.base_rows for partition in self.partitions])

    @property
    def index_rows(self) -> int | None:
        return _sum([partition.index_rows for partition in self.partitions])

    @property
    def index_bytes(self) -> int:
        return sum(partition.index_bytes for partition in self.partitions)

    @property
    def built(self) -> float | None:
        """The time when the last build of any partition began, in seconds since 1970.

        The time is None if no partition was built.
        """
        return max((partition.built for partition in self.partitions if partition.built is not None), default=None)


def _refresh_record(last: RefreshRecord | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {
        "at": moment(last.author.started),
        "host": last.author.host,
        "process": last.author.pid,
        "seconds": last.seconds,
        "files": last.files,
        "error": last.error,
    }


def show(spark: SparkSession, table: str | None = None, *, keys: bool = False) -> list[IndexStatus]:
    """Return the state of the indexes of a table, sorted by name.

    Without a table, the indexes of all tables in the session's database are shown, sorted by table and name. If the
    table was dropped, `problem` says so. With `keys`, the distinct keys are counted too, by a Spark job over each index
    table. Raise NotFound for an unknown table, and NotPermitted for `keys` if only Spark may read the table.
    """
    if table is None:
        return Reports(
            status for name in catalog.indexed_tables(spark, None) for status in show(spark, name, keys=keys)
        )
    secret = permission.only_spark_reads(spark)
    base, indexes = catalog.find_even_if_dropped(spark, table)
    sources: list[Source] = []
    if base is not None and indexes:
        try:
            format_of(base)
            sources = base_files.sources(spark, base)
        except Unsupported as e:
            indexes = [replace(index, problem=index.problem or str(e)) for index in indexes]
    if keys and base is not None:
        names = sorted({column.name for index in indexes for column in index.definition.source_columns})
        permission.require_reading(spark, base, names, "a count of keys")
    statuses = [_status(spark, base, index, sources) for index in indexes]
    if secret:
        statuses = [
            replace(status, partitions=tuple(map(_without_rows, status.partitions)), dead_rows=None)
            for status in statuses
        ]
    if not keys:
        return Reports(statuses)
    return Reports(
        _with_keys(spark, status, index) if index.trusted else status
        for status, index in zip(statuses, indexes, strict=True)
    )


def _status(spark: SparkSession, base: Table | None, index: Index, sources: list[Source]) -> IndexStatus:
    if not index.trusted:
        return IndexStatus(index.definition, (), index.problem)
    where = "" if index.problem else index.definition.where
    flags = (
        covered(spark, base, where, [source.values for source in sources]) if base and where else [True] * len(sources)
    )
    folders = catalog.segments(spark, index)
    manifests = [_manifest(folder) for folder in folders]
    covered_files = Covered.by([content for content in manifests if content is not None])
    covered_sources = [source for source, covers in zip(sources, flags, strict=True) if covers]
    listed = {source.values for source in covered_sources}
    covered_sources += [Source(values, "", ()) for values in covered_files.partitions if values not in listed]
    partitions, dead = _partitions(index, covered_sources, covered_files, *_schemas(spark, base))
    damaged = [folder for folder, content in zip(folders, manifests, strict=True) if content is None]
    problem = index.problem or _problem(spark, index, damaged, covered_files)
    problem = problem or roots.refusal(index.definition, metastore_id(spark))
    last = refresh_record.read(index.definition) if index.definition.auto_refresh else None
    return IndexStatus(index.definition, partitions, problem, last_refresh=last, segments=len(folders), dead_rows=dead)


def _manifest(folder: str) -> Manifest | None:
    try:
        return manifest.read(folder)
    except CorruptIndex:
        return None


def _problem(spark: SparkSession, index: Index, damaged: Sequence[str], covered_files: Covered) -> str:
    """Describe the first problem of an index's segments and slots.

    The text also has the number of further problems. `damaged` are the folders of unreadable segments, `covered_files`
    are the files in all other segments. Return "" without a problem.
    """
    problems = [f"{folder} is damaged, missing or not of this index: rebuild the index" for folder in damaged]
    if not index.definition.is_former:
        current_slots = catalog.slots_of(spark, index.table)
        foreign = [current_slots[number] for number in slots.foreign(current_slots, index.definition)]
        problems += [
            f"{folder} is not a segment of this index, and SQL users see its rows: rebuild it" for folder in foreign
        ]
        problems += [
            f"two slots point at {current_slots[number]}, and SQL users see its rows twice: rebuild the index"
            for number in slots.repeated(current_slots)
        ]
    problems += filter(None, map_parallel(lambda folder: _problem_of(folder, covered_files), covered_files.segments))
    return problems[0] + (f" ({len(problems) - 1} more segments)" if problems[1:] else "") if problems else ""


def _problem_of(folder: str, covered_files: Covered) -> str:
    """Return the problem of a segment's shards; "" without a problem.

    `folder` is the folder of the segment. `covered_files` has the files and shards of all readable segments.
    """
    try:
        files = stores.listing(folder).files
    except FileNotFoundError:
        return f"{folder} is damaged, missing or not of this index: rebuild the index"
    visible = {file.path: file.size for file in files if is_visible(file.path.rpartition("/")[2])}
    expected = covered_files.shards.filter(
        pa.array(covered_files.shard_segment == covered_files.segments.index(folder))
    )
    shards = dict(zip(expected["shard"].to_pylist(), expected["size"].to_pylist(), strict=True))
    if shards.keys() - visible:
        return f"shards are missing in {folder}: rebuild the index"
    if any(visible[path] != size for path, size in shards.items()):
        return f"shards are damaged in {folder}: rebuild the index"
    if visible.keys() - shards:
        return f"{folder} holds files that no build wrote, and SQL users see their rows: rebuild the index"
    return ""


def _schemas(spark: SparkSession, base: Table | None) -> tuple[Collection[int] | None, int]:
    """Return the valid schemas of a table, and the checksum of its columns.

    The schemas are `definition.valid_schemas`; None means that all schemas are valid. The schemas are also None if the
    table does not exist or cannot have indexes.
    """
    if base is None:
        return None, 0
    zone, reading = metastore.time_zone(spark), serde.read_properties(base)
    crc = schema_crc(base.columns, zone, reading)
    try:
        return valid_schemas(format_of(base), base.columns, zone, reading), crc
    except Unsupported:  # the index has a problem then, which is shown
        return None, crc


def _without_rows(status: PartitionStatus) -> PartitionStatus:
    return replace(status, base_rows=None, index_rows=None)


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Return the sum of numbers; None if any number is None."""
    present = [number for number in numbers if number is not None]
    return sum(present) if len(present) == len(numbers) else None


def _partitions(
    index: Index, sources: Sequence[Source], covered: Covered, schemas: Collection[int] | None, crc: int
) -> tuple[tuple[PartitionStatus, ...], int]:
    """Return the state of each partition, and the number of dead rows.

    Dead rows are base rows of deleted files. `schemas` and `crc` are the results of `_schemas`.
    """
    listing = Listing.of((source.values, source.files) for source in sources)
    numbers = np.array([covered.numbers.get(values, -1) for values in listing.partitions], np.int64)
    records = FileRecords.of(covered, listing, numbers, schemas)
    why = _why_read(records, crc)
    dead = np.ones(covered.files.num_rows, bool)
    dead[records.row[records.row >= 0]] = False
    size = np.bincount(covered.shard_segment, _bytes_of_shards(covered), len(covered.segments))
    entries = np.bincount(covered.shard_segment, covered.shards["rows"].to_numpy(), len(covered.segments))
    rows = np.bincount(covered.segment, covered.rows, len(covered.segments))
    share = covered.rows / np.maximum(rows[covered.segment], 1)  # of each file in the rows of its segment
    index_rows, index_bytes = (
        _rounded(np.bincount(covered.partition, share * of_segment[covered.segment], len(covered.partitions)))
        for of_segment in (entries, size)
    )
    edges = np.searchsorted(listing.partition, np.arange(len(sources) + 1)).tolist()
    built = [generation_names.build_time(folder) for folder in covered.segments]
    statuses = []
    for at, source in enumerate(sources):
        files = range(edges[at], edges[at + 1])
        rows_of_partition = (
            np.flatnonzero(covered.partition == numbers[at]) if numbers[at] >= 0 else np.zeros(0, np.int64)
        )
        stale = [n for n in files if records.stale[n]]
        unindexed = [n for n in files if not records.indexed[n]]
        unseen = [listing.files[n] for n in (*stale, *unindexed) if records.row[n] < 0 or not records.same[n]]
        to_read = [n for n in files if why[n]]
        statuses.append(
            PartitionStatus(
                name=table_info.partition_name([c.name for c in index.definition.partitioned_by], source.values),
                values=source.values,
                fresh=len(files) - len(stale) - len(unindexed),
                stale=len(stale),
                unindexed=len(unindexed),
                gone=int(records.vanished[at]),
                stale_bytes=int(listing.sizes[stale].sum()),
                unindexed_bytes=int(listing.sizes[unindexed].sum()),
                base_rows=int(covered.rows[rows_of_partition].sum()),
                index_rows=index_rows[numbers[at]] if numbers[at] >= 0 else 0,
                index_bytes=index_bytes[numbers[at]] if numbers[at] >= 0 else 0,
                built=max(
                    (built[number] for number in np.unique(covered.segment[rows_of_partition]).tolist()), default=None
                ),
                unseen_since=min((file.changed_ms / 1000 for file in unseen if file.changed_ms), default=None),
                to_read=len(to_read),
                bytes_to_read=int(listing.sizes[to_read].sum()),
                why_read=tuple(Counter(why[n] for n in to_read).most_common()),
            )
        )
    return tuple(statuses), int(covered.rows[dead].sum())


def _rounded(parts: npt.NDArray[Any]) -> list[int]:
    """Round numbers so that their sum stays the same.

    >>> _rounded(np.array([0.5, 0.5, 1.5, 0.5]))
    [0, 1, 1, 1]
    """
    whole: list[int] = np.diff(np.rint(np.cumsum(parts)), prepend=0).astype(np.int64).tolist()
    return whole


def _why_read(records: FileRecords, crc: int) -> list[str]:
    """Return why the next rebuild reads each listed file.

    `crc` is the checksum of the table's current columns. The reason is "" for a file that the rebuild does not read.
    """
    tried = np.append(records.covered.files["schema_crc"].to_numpy() == crc, False)[records.row]
    usual = UNBUILT if not records.covered.segments else NEW
    return [
        usual if row < 0 else CHANGED if not same else "" if valid or was_tried else COLUMNS_CHANGED
        for row, same, valid, was_tried in zip(records.row, records.same, records.valid, tried, strict=True)
    ]


def _bytes_of_shards(covered: Covered) -> Longs:
    sizes: Longs = covered.shards["size"].to_numpy() + covered.shards["cardinality_size"].to_numpy()
    return sizes


def _with_keys(spark: SparkSession, status: IndexStatus, index: Index) -> IndexStatus:
    """Return a status with its numbers of distinct keys filled in.

    Spark counts the keys of `index` for each partition and for the whole index.
    """
    from pyspark.sql import functions as f

    spark.catalog.refreshTable(index.table.spark_name)
    columns = [column.name for column in index.definition.partitioned_by]
    distinct = spark.table(index.table.spark_name).select(
        f.array(*(f.col(quote(name)).cast("string") for name in columns)).alias("partition"),
        f.struct(*(f.col(quote(name)) for name in status.definition.column_names)).alias("key"),
    )
    rows = distinct.groupBy("partition").agg(f.countDistinct("key")).collect()
    counts: Mapping[Values, int] = {tuple(row[0]): row[1] for row in rows}
    total = distinct.agg(f.countDistinct("key")).collect()[0][0] if columns else counts.get((), 0)
    partitions = (replace(partition, keys=counts.get(partition.values, 0)) for partition in status.partitions)
    return replace(status, partitions=tuple(partitions), keys=total)
