"""The state of the indexes of a table: how much of the base files each covers now, and what is wrong with it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from hive_bitmap.core import stores, table_info
from hive_bitmap.core.explaining.measures import by_reason, counted, moment, size
from hive_bitmap.core.explaining.reports import Report, Reports
from hive_bitmap.core.index import generation, manifest, refresh_record, roots
from hive_bitmap.core.index.definition import Definition, schema_crc, valid_schemas
from hive_bitmap.core.index.manifest import UNBUILT, Freshness, Manifest
from hive_bitmap.core.index.refresh_record import RefreshRecord
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values, quote
from hive_bitmap.errors import CorruptIndex, Unsupported
from hive_bitmap.spark.metastore import base_files, metastore, permission, serde
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.metastore.file_listing import format_of, is_visible
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.registry.coverage import covered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class PartitionStatus:
    """The state of one partition of an index; `name` is like `p=1/q=x`, and empty for an unpartitioned table.

    Of the base files, `fresh` ones are as they were indexed, `stale` ones have changed since, `unindexed` ones are not
    in the index, and `gone` ones are in the index but do not exist any more. `built` is when the last build began, in
    seconds since 1970. `unseen_since` is when the oldest change was that the index has not seen, of a file that is new
    or stale, in the same unit; None if it has seen all, or the log of the table does not say. `problem` says what is
    wrong with the generation; queries read the affected files whole. `keys` is the number of distinct keys, if
    requested. The next rebuild reads `to_read` files of `bytes_to_read` bytes, so many for each of the reasons in
    `why_read`. Numbers of rows are None where only Spark may read the table.
    """

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
    problem: str = ""
    keys: int | None = None
    to_read: int = 0
    bytes_to_read: int = 0
    why_read: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class IndexStatus(Report):
    """The state of one index: its partitions, without those that its WHERE excludes, and sums over them.

    `problem` says why queries cannot use the index or parts of it; empty if they can. `keys` is the number of distinct
    keys, if requested. `last_refresh` is the last refresh after writes that is recorded, None if none is.
    """

    definition: Definition
    partitions: tuple[PartitionStatus, ...]
    problem: str = ""
    keys: int | None = None
    last_refresh: RefreshRecord | None = None

    def __repr__(self) -> str:
        return f"IndexStatus({self})"

    def __str__(self) -> str:
        one = self.definition
        counts = ((getattr(self, name), name) for name in ("fresh", "stale", "unindexed", "gone"))
        files = ", ".join(f"{count:,} {name}" for count, name in counts if count) or "no"
        said = f"{one.name} on {one.full_table} ({', '.join(one.column_names)}): {files} files"
        return "; ".join([f"{said}, {size(self.index_bytes)}", *filter(None, [self.next_rebuild, self.problem])])

    def _cells(self) -> dict[str, str]:
        files = {name: f"{getattr(self, name):,}" for name in ("fresh", "stale", "unindexed", "gone")}
        return {
            "index": self.definition.name,
            "columns": ", ".join(self.definition.column_names),
            "encoding": self.definition.bitmap_encoding or "COMPACT",
            **files,
            "size": size(self.index_bytes),
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
        """What the next rebuild reads, and why, in words; "" if it reads nothing."""
        reasons = by_reason(one.why_read for one in self.partitions)
        if not reasons:
            return ""
        why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        return f"the next rebuild reads {counted(self.to_read, 'file')} of {size(self.bytes_to_read)} ({why})"

    @property
    def unseen_since(self) -> float | None:
        """When the oldest change was that the index has not seen, in seconds since 1970; None if it has seen all."""
        return min((one.unseen_since for one in self.partitions if one.unseen_since is not None), default=None)

    @property
    def lag(self) -> float:
        """The age in seconds of the oldest change that the index has not seen; 0 if it has seen all."""
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
        """When the last build of any partition began, in seconds since 1970; None if there was none."""
        return max((partition.built for partition in self.partitions if partition.built is not None), default=None)


def show(spark: SparkSession, table: str | None = None, *, keys: bool = False) -> list[IndexStatus]:
    """Return the state of the indexes of a table, by name; if the table was dropped, `problem` says so.

    Without a table they are those of all tables with an index in the session's database, by table and name.
    With `keys` the distinct keys are counted too, by a Spark job over each index table. Raise NotFound for an unknown
    table, and NotPermitted for `keys` where only Spark may read the table.
    """
    if table is None:
        return Reports(one for name in catalog.indexed_tables(spark, None) for one in show(spark, name, keys=keys))
    secret = permission.only_spark_reads(spark)
    base, indexes = catalog.find_even_if_dropped(spark, table)
    found: list[Source] = []
    if base is not None and indexes:
        try:
            format_of(base)
            found = base_files.sources(spark, base)
        except Unsupported as e:
            indexes = [replace(index, problem=index.problem or str(e)) for index in indexes]
    if keys and base is not None:
        names = sorted({name for index in indexes for name in index.definition.column_names})
        permission.require_reading(spark, base, names, "a count of keys")
    shown = [_status(spark, base, index, found) for index in indexes]
    if secret:
        shown = [replace(one, partitions=tuple(map(_without_rows, one.partitions))) for one in shown]
    if not keys:
        return Reports(shown)
    return Reports(
        _with_keys(spark, status, index) if index.trusted else status
        for status, index in zip(shown, indexes, strict=True)
    )


def _status(spark: SparkSession, base: Table | None, index: Index, found: list[Source]) -> IndexStatus:
    if not index.trusted:
        return IndexStatus(index.definition, (), index.problem)
    where = "" if index.problem else index.definition.where
    flags = covered(spark, base, where, [source.values for source in found]) if base and where else [True] * len(found)
    folders = catalog.published_generations(spark, index)
    wanted = {source.values: source for source, covers in zip(found, flags, strict=True) if covers}
    wanted |= {values: Source(values, "", ()) for values in folders if values not in wanted}
    names = [column.name for column in index.table.partition_columns]
    schemas = _schemas(spark, base)
    partitions = map_parallel(
        lambda one: _partition(names, index, one, folders.get(one.values), schemas), wanted.values()
    )
    problem = index.problem or _first_problem(partitions) or roots.refusal(index.definition, metastore_id(spark))
    last = refresh_record.read(index.definition) if index.definition.auto_refresh else None
    return IndexStatus(index.definition, tuple(partitions), problem, last_refresh=last)


def _schemas(spark: SparkSession, base: Table | None) -> tuple[Collection[int] | None, int]:
    """Return the `definition.valid_schemas` of a table, if it is one that an index can have, and its checksum."""
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
    """Return the sum of numbers; None if one of them is not told."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _partition(
    names: list[str], index: Index, source: Source, folder: str | None, of_table: tuple[Collection[int] | None, int]
) -> PartitionStatus:
    """Return the state of one partition; `of_table` are the schemas and the checksum as in `Manifest.why_read`."""
    schemas, crc = of_table
    published, problem = _manifest_and_problem(index, folder)
    states = [published.freshness(file, schemas) if published else Freshness.UNINDEXED for file in source.files]

    def files(wanted: Freshness) -> list[FileStatus]:
        return [file for file, state in zip(source.files, states, strict=True) if state is wanted]

    stale, unindexed = files(Freshness.STALE), files(Freshness.UNINDEXED)
    whys = [published.why_read(file, schemas, crc) if published else UNBUILT for file in source.files]
    unseen = [file for file in (*stale, *unindexed) if published is None or not published.has_seen(file)]
    return PartitionStatus(
        name=table_info.partition_name(names, source.values),
        values=source.values,
        fresh=states.count(Freshness.FRESH),
        stale=len(stale),
        unindexed=len(unindexed),
        gone=published.gone(source.files) if published else 0,
        stale_bytes=sum(file.size for file in stale),
        unindexed_bytes=sum(file.size for file in unindexed),
        base_rows=(pc.sum(pc.list_flatten(published.files["rows"])).as_py() or 0) if published else 0,
        index_rows=(pc.sum(published.shards["rows"]).as_py() or 0) if published else 0,
        index_bytes=_total_bytes(published) if published else 0,
        built=generation.build_time(folder) if folder and generation.is_generation(folder) else None,
        unseen_since=min((file.changed_ms / 1000 for file in unseen if file.changed_ms), default=None),
        problem=problem,
        to_read=sum(map(bool, whys)),
        bytes_to_read=sum(file.size for file, why in zip(source.files, whys, strict=True) if why),
        why_read=tuple(Counter(filter(None, whys)).most_common()),
    )


def _total_bytes(published: Manifest) -> int:
    return pc.sum(pc.add(published.shards["size"], published.shards["cardinality_size"])).as_py() or 0


def _manifest_and_problem(index: Index, folder: str | None) -> tuple[Manifest | None, str]:
    """Return the manifest of a generation, None if it is unreadable, and what is wrong with the generation."""
    if folder is None:
        return None, ""
    damaged = f"{folder} is damaged, gone or not of this index: rebuild the index"
    if not generation.belongs_to(folder, index.definition):
        return None, damaged
    try:
        published = manifest.read(folder)
        found = stores.listing(folder).files
        visible = {file.path: file.size for file in found if is_visible(file.path.rpartition("/")[2])}
    except (CorruptIndex, FileNotFoundError):
        return None, damaged
    shards = {published.shard_path(shard): size for shard, size in published.sizes.items()}
    if shards.keys() - visible:
        return published, f"shards are missing in {folder}: rebuild the index"
    if any(visible[path] != size for path, size in shards.items()):
        return published, f"shards are damaged in {folder}: rebuild the index"
    if visible.keys() - shards:
        return published, f"{folder} holds files that no build wrote, and SQL users see their rows: rebuild the index"
    return published, ""


def _first_problem(partitions: list[PartitionStatus]) -> str:
    """Return the problem of the first partition that has one, and how many others have one."""
    problems = [partition.problem for partition in partitions if partition.problem]
    return problems[0] + (f" ({len(problems) - 1} more partitions)" if problems[1:] else "") if problems else ""


def _with_keys(spark: SparkSession, status: IndexStatus, index: Index) -> IndexStatus:
    """Return the status with the number of distinct keys, of each partition and of all, which Spark counts."""
    from pyspark.sql import functions as f

    spark.catalog.refreshTable(index.table.spark_name)
    columns = [column.name for column in index.table.partition_columns]
    distinct = spark.table(index.table.spark_name).select(
        f.array(*(f.col(quote(name)).cast("string") for name in columns)).alias("partition"),
        f.struct(*(f.col(quote(name)) for name in status.definition.column_names)).alias("key"),
    )
    rows = distinct.groupBy("partition").agg(f.countDistinct("key")).collect()
    counts: Mapping[Values, int] = {tuple(row[0]): row[1] for row in rows}
    total = distinct.agg(f.countDistinct("key")).collect()[0][0] if columns else counts.get((), 0)
    partitions = (replace(partition, keys=counts.get(partition.values, 0)) for partition in status.partitions)
    return replace(status, partitions=tuple(partitions), keys=total)
