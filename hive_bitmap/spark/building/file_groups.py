"""Grouping of base files: a shard covers consecutive files of one partition, about the same number of bytes each time.

A file that several indexes need is opened once, for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hive_bitmap.core.index.definition import schema_crc
from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.building.build_job import Job
from hive_bitmap.spark.building.group_indexing import Group
from hive_bitmap.spark.building.partition_change import Change
from hive_bitmap.spark.building.shard_compaction import Compaction
from hive_bitmap.spark.building.staged_values import ReadOptions
from hive_bitmap.spark.metastore import metastore, serde
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.metastore.file_listing import format_of
from hive_bitmap.spark.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARDS_PER_CORE = 2  # so that work can be balanced between tasks
GROUP_BYTES = 512 << 20  # most bytes of base files of one shard: limits the work and memory of a task
SMALL_GROUP_BYTES = 8 << 20  # groups are not made smaller than this to occupy more tasks


def shard_bytes(total: int, cores: int) -> int:
    """Return how many bytes of base files a shard should cover if files of `total` bytes are indexed in one build.

    `cores` tasks of it run at once.
    """
    share = total // (cores * SHARDS_PER_CORE)
    return min(GROUP_BYTES, max(SMALL_GROUP_BYTES, share))


def count_shards(sources: Sequence[Source], cores: int) -> int:
    """Return how many shards a build of one index on these partitions would write, `cores` at once."""
    target = shard_bytes(sum(file.size for source in sources for file in source.files), cores)
    return sum(1 for source in sources for _ in grouped(source.files, target))


def grouped(files: Sequence[FileStatus], target: int) -> Iterator[Sequence[FileStatus]]:
    """Yield the files, in order, in groups of about equal size, near `target` bytes; a file is never cut."""
    total = sum(file.size for file in files)
    each = total / max(round(total / target), 1)
    before, number = 0, 0
    group: list[FileStatus] = []
    for file in files:
        if group and before + file.size / 2 > each * (number + 1):
            yield group
            group, number = [], max(number + 1, round(before / each))  # one file may be as large as several groups
        group.append(file)
        before += file.size
    if group:
        yield group


def jobs(
    spark: SparkSession,
    base: Table,
    changes: Sequence[Change],
    staging: str = "",
    fatal: Mapping[str, str] = MappingProxyType({}),
) -> list[Job]:
    """Return the jobs of a build: groups of base files to index, for all indexes that need them, and shards to rewrite.

    `staging` is the folder of `staging.staged`; empty for a format that tasks read themselves. `fatal` are as in Group.
    """
    options = ReadOptions(format_of(base), base.columns, metastore.time_zone(spark), staging)
    crc = schema_crc(base.columns, options.time_zone, serde.read_properties(base))
    template = Group(
        partition=0,
        paths=(),
        bytes=0,
        read_options=options,
        schema_crc=crc,
        definitions=(),
        folders=(),
        fatal=dict(fatal),
    )
    return jobs_like(template, changes, parallelism(spark))


def jobs_like(template: Group, changes: Sequence[Change], cores: int) -> list[Job]:
    """Return the jobs of a build whose groups read their files as `template` says, and of which `cores` run at once."""
    shared = _shared(changes)
    target = shard_bytes(sum(file.size for files, _ in shared for file in files), cores)
    groups = [
        Job(tuple(change.index for change in together), _group(template, together, files))
        for all_files, together in shared
        for files in grouped(all_files, target)
    ]
    return groups + [_compaction(template, change, shards) for change in changes for shards in change.refresh.rewritten]


def _shared(changes: Sequence[Change]) -> list[tuple[list[FileStatus], tuple[Change, ...]]]:
    """Return the files to read, by the changes (of one partition, of several indexes) that need them."""
    needed: dict[tuple[int, FileStatus], list[int]] = defaultdict(list)
    for number, change in enumerate(changes):
        for file in change.refresh.read:
            needed[change.partition, file].append(number)
    shared: dict[tuple[int, ...], list[FileStatus]] = defaultdict(list)
    for (_, file), numbers in needed.items():
        shared[tuple(numbers)].append(file)
    return [
        (sorted(files, key=lambda file: file.path), tuple(changes[number] for number in numbers))
        for numbers, files in shared.items()
    ]


def _group(template: Group, together: Sequence[Change], files: Sequence[FileStatus]) -> Group:
    return replace(
        template,
        partition=together[0].partition,
        paths=tuple(file.path for file in files),
        bytes=sum(file.size for file in files),
        definitions=tuple(change.definition for change in together),
        folders=tuple(change.folder for change in together),
        immutable={file.path: file for file in files if file.etag == IMMUTABLE},
    )


def _compaction(template: Group, change: Change, shards: Sequence[str]) -> Job:
    published = change.published
    assert published is not None, "shards to rewrite come from a published generation"
    rows = change.refresh.rows_of(shards)
    sized = tuple((published.shard_path(shard), published.sizes[shard]) for shard in shards)
    files = [FileStatus(*row.values()) for row in rows.select(["path", "size", "mtime_ms", "etag"]).to_pylist()]
    return Job((change.index,), Compaction(sized, rows, _group(template, [change], files), change.moved_from))
