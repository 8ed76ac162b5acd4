"""Divide the base files of a build into groups, the jobs of the build.

For each index that needs its files, a group becomes one shard, or several shards if the index rows are large. A group
has consecutive files, and all groups have about the same number of bytes. A file that several indexes need is opened
once for all of them. Other jobs rewrite existing shards.

Index rows have the typed values of their partition, which the metastore has as texts. Python converts texts in
canonical form. Spark converts all other texts, as when it reads the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type, partition_values
from hive_bitmap.core.index.definition import TEXT_PARTITIONS, schema_crc, value_columns
from hive_bitmap.core.indexing.group_indexing import Group
from hive_bitmap.core.indexing.segment_change import BaseFile, Change
from hive_bitmap.core.indexing.shard_compaction import Compaction
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.listings import serde
from hive_bitmap.core.listings.file_listing import format_of
from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.core.table_info import Table, Values, quote
from hive_bitmap.spark.building.build_job import Job
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.tasks.distribution import parallelism
from hive_bitmap.spark.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A function from partition columns and distinct values of partitions to a table with a typed row for each partition.
StoredValues = Callable[[Sequence[Column], Sequence[Values]], pa.Table]
_NUMBER = "__number"
SHARDS_PER_CORE = 2  # so that work can be balanced between tasks
GROUP_BYTES = 512 << 20  # most bytes of base files of one shard: limits the work and memory of a task
SMALL_GROUP_BYTES = 8 << 20  # groups are not made smaller than this to occupy more tasks


def stored_values(spark: SparkSession, columns: Sequence[Column], values: Sequence[Values]) -> pa.Table:
    """Convert the texts of partition values to the values that an index table stores.

    The result has a row for each partition, and a column for each partition column. A text that is not a value of its
    type becomes NULL.
    """
    arrays = [_column(spark, column, [texts[at] for texts in values]) for at, column in enumerate(columns)]
    return pa.table(arrays, [column.name for column in columns])


def _column(spark: SparkSession, column: Column, texts: Sequence[str | None]) -> pa.Array:
    if column.type in TEXT_PARTITIONS:
        return pa.array(texts, pa.string())
    typed = partition_values(column, texts)
    if typed is not None:
        return typed
    return _by_spark(spark, column, texts).cast(arrow_type(KeyColumn(column.name, column.type)))


def _by_spark(spark: SparkSession, column: Column, texts: Sequence[str | None]) -> pa.Array:
    """Have Spark cast the texts of partition values to the column's type.

    The result is an Arrow array in the order of `texts`; a text that cannot be cast is NULL.
    """
    from pyspark.sql import functions as f

    texts_table = pa.table(
        {column.name: pa.array(texts, pa.string()), _NUMBER: pa.array(range(len(texts)), pa.int64())}
    )
    typed = f.expr(f"try_cast({quote(column.name)} AS {column.type})").alias(column.name)
    # to Arrow and not to Python, which has no year 10000
    rows = data_frame(spark, texts_table).select(typed, _NUMBER).toArrow().sort_by(_NUMBER)
    return rows.column(0).combine_chunks().cast(arrow_type(KeyColumn(column.name, column.type)))


def shard_bytes(total: int, cores: int) -> int:
    """Return how many bytes of base files a shard should cover.

    The build indexes files of `total` bytes, in `cores` concurrent tasks.
    """
    share = total // (cores * SHARDS_PER_CORE)
    return min(GROUP_BYTES, max(SMALL_GROUP_BYTES, share))


def count_shards(sources: Sequence[Source], cores: int) -> int:
    """Estimate how many shards a build of one index writes.

    The build indexes all files of `sources`, in `cores` concurrent tasks. Each group of files counts as one shard.
    """
    files = [BaseFile(source.values, file) for source in sources for file in source.files]
    return sum(1 for _ in grouped(files, shard_bytes(sum(file.status.size for file in files), cores)))


def grouped(files: Sequence[BaseFile], target: int) -> Iterator[Sequence[BaseFile]]:
    """Divide files into groups of about `target` bytes.

    The files keep their order, and a file is never cut.
    """
    total = sum(file.status.size for file in files)
    each = total / max(round(total / target), 1)
    before, number = 0, 0
    group: list[BaseFile] = []
    for file in files:
        if group and before + file.status.size / 2 > each * (number + 1):
            yield group
            group, number = [], max(number + 1, round(before / each))  # one file may be as large as several groups
        group.append(file)
        before += file.status.size
    if group:
        yield group


def distinct(files: Sequence[BaseFile]) -> Iterator[Sequence[BaseFile]]:
    """Divide files into groups in which no path is repeated.

    A path is repeated among the files if partitions share a folder.
    """
    remaining = list(files)
    while remaining:
        group = {file.status.path: file for file in reversed(remaining)}
        chosen = {id(file) for file in group.values()}
        yield [file for file in remaining if id(file) in chosen]
        remaining = [file for file in remaining if id(file) not in chosen]


def jobs(
    spark: SparkSession,
    base: Table,
    changes: Sequence[Change],
    staging: str = "",
    fatal: Mapping[str, str] = MappingProxyType({}),
) -> list[Job]:
    """Return the jobs of a build.

    A job indexes a group of base files for all indexes, or rewrites shards. `changes` are the new segments of the
    build. `staging` is the folder that `staging.staged` yields, or "" for a format that tasks read themselves. `fatal`
    maps the paths of files that crash the process that reads them to the reasons.
    """
    options = ReadOptions(format_of(base), base.columns, metastore.time_zone(spark), staging)
    crc = schema_crc(base.columns, options.time_zone, serde.read_properties(base))
    template = Group(
        paths=(),
        bytes=0,
        read_options=options,
        schema_crc=crc,
        definitions=(),
        folders=(),
        fatal=dict(fatal),
    )
    return jobs_like(template, changes, parallelism(spark), partial(stored_values, spark))


def jobs_like(template: Group, changes: Sequence[Change], cores: int, stored: StoredValues) -> list[Job]:
    """Return the jobs of a build, with the reading options of `template`.

    `cores` jobs run concurrently. `stored` returns the typed values of partitions (see `stored_values`).
    """
    shared = _shared(changes)
    target = shard_bytes(sum(file.status.size for files, _ in shared for file in files), cores)
    groups = [
        (numbers, group) for files, numbers in shared for part in grouped(files, target) for group in distinct(part)
    ]
    compactions = [(number, shards) for number, change in enumerate(changes) for shards in change.segment.rewritten]
    base_files = [_kept(changes[number], shards) for number, shards in compactions]
    values = dict.fromkeys(file.values for files in (*(group for _, group in groups), *base_files) for file in files)
    typed = _Typed(changes, list(values), stored)
    indexing_jobs = [
        Job(numbers, _group(template, typed, [changes[at] for at in numbers], files)) for numbers, files in groups
    ]
    return indexing_jobs + [
        _compaction(template, typed, number, changes[number], shards, files)
        for (number, shards), files in zip(compactions, base_files, strict=True)
    ]


class _Typed:
    """The partition values of a build, typed as index tables store them."""

    def __init__(self, changes: Sequence[Change], values: Sequence[Values], stored: StoredValues) -> None:
        columns = value_columns(changes[0].definition) if changes else []
        self._rows = {partition: number for number, partition in enumerate(values)}
        self._table = stored(changes[0].definition.partitioned_by, values) if columns else None

    def of(self, files: Sequence[BaseFile]) -> pa.Table | None:
        if self._table is None:
            return None
        return self._table.take(pa.array([self._rows[file.values] for file in files], pa.int64()))


def _shared(changes: Sequence[Change]) -> list[tuple[list[BaseFile], tuple[int, ...]]]:
    """Group the files to read by the changes that need them.

    Return for each group its files, and the positions of these changes in `changes`.
    """
    needed: dict[BaseFile, list[int]] = defaultdict(list)
    for number, change in enumerate(changes):
        for file in change.read:
            needed[file].append(number)
    shared: dict[tuple[int, ...], list[BaseFile]] = defaultdict(list)
    for file, numbers in needed.items():
        shared[tuple(numbers)].append(file)
    return [(files, numbers) for numbers, files in shared.items()]


def _group(template: Group, typed: _Typed, together: Sequence[Change], files: Sequence[BaseFile]) -> Group:
    listed = [file.status for file in files]
    return replace(
        template,
        paths=tuple(file.path for file in listed),
        values=tuple(file.values for file in files),
        typed=typed.of(files),
        bytes=sum(file.size for file in listed),
        definitions=tuple(change.definition for change in together),
        folders=tuple(change.folder for change in together),
        immutable={file.path: file for file in listed if file.etag == IMMUTABLE},
    )


def _kept(change: Change, shards: Sequence[str]) -> list[BaseFile]:
    """Return the base files whose rows stay when `shards` are rewritten.

    The shards are rewritten into the new segment `change`.
    """
    rows = change.segment.rows_of(shards).select(["values", "path", "size", "mtime_ms", "etag"]).to_pylist()
    return [BaseFile(tuple(row.pop("values") or ()), FileStatus(**row)) for row in rows]


def _compaction(
    template: Group, typed: _Typed, number: int, change: Change, shards: Sequence[str], files: Sequence[BaseFile]
) -> Job:
    rows = change.segment.rows_of(shards)
    sized = tuple((shard, change.sizes[shard]) for shard in shards)
    former = {file.status.path: change.moved[file.status.path] for file in files if file.status.path in change.moved}
    return Job((number,), Compaction(sized, rows, _group(template, typed, [change], files), former))
