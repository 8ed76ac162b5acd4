"""Which base files one shard covers: files of one partition, one behind the other, about as many bytes each time.

A file that several indexes need is opened once, for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.building.build_job import Job
from hive_bitmap.building.group_indexing import Group
from hive_bitmap.building.partition_change import Change
from hive_bitmap.building.shard_compaction import Carry
from hive_bitmap.index.definition import schema_crc
from hive_bitmap.metastore import metastore, serde
from hive_bitmap.metastore.base_files import Source
from hive_bitmap.metastore.file_listing import format_of
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.stores import FileStatus
from hive_bitmap.tasks.distribution import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARDS_PER_CORE = 2  # so that tasks can be given about the same to do
GROUP_BYTES = 512 << 20  # base files of one shard: bounds a task's memory and a lookup's number of shards
SMALL_GROUP_BYTES = 8 << 20  # no group is made smaller than this for the sake of parallel tasks


def shard_bytes(spark: SparkSession, files: Iterable[FileStatus]) -> int:
    """The bytes of base files that a shard covers where these files are indexed together."""
    share = sum(file.size for file in files) // (parallelism(spark) * SHARDS_PER_CORE)
    return min(GROUP_BYTES, max(SMALL_GROUP_BYTES, share))


def cuts(spark: SparkSession, found: Sequence[Source]) -> Iterator[tuple[int, Sequence[FileStatus]]]:
    """The base files of each shard that a build makes, with the number of their partition in `found`."""
    target = shard_bytes(spark, (file for source in found for file in source.files))
    for partition, source in enumerate(found):
        for files in cut(source.files, target):
            yield partition, files


def cut(files: Sequence[FileStatus], target: int) -> Iterator[Sequence[FileStatus]]:
    """Files in order, in groups of about equal size, about `target` bytes."""
    total = sum(file.size for file in files)
    each = total / max(round(total / target), 1)
    before, number = 0, 0
    group: list[FileStatus] = []
    for file in files:
        if group and before + file.size / 2 > each * (number + 1):
            yield group
            group, number = [], number + 1
        group.append(file)
        before += file.size
    if group:
        yield group


def jobs(spark: SparkSession, base: Table, changes: Sequence[Change], staging: str = "") -> list[Job]:
    """The work of a build: base files to index, for all indexes that need them, and shards to write anew.

    `staging` is where the values lie that Spark has read.
    """
    zone = metastore.time_zone(spark)
    crc = schema_crc(base.columns, zone, serde.reading(base))
    like = Group(0, (), 0, format_of(base), base.columns, crc, zone, (), (), staging)
    shared = _shared(changes)
    target = shard_bytes(spark, (file for files, _ in shared for file in files))
    made = [
        Job(tuple(change.index for change in together), _group(like, together, files))
        for all_files, together in shared
        for files in cut(all_files, target)
    ]
    return made + [_carry(like, change, shards) for change in changes for shards in change.refresh.carried]


def _shared(changes: Sequence[Change]) -> list[tuple[list[FileStatus], tuple[Change, ...]]]:
    """The files to read, each once, with the changes that need them: all of one partition."""
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


def _group(like: Group, together: Sequence[Change], files: Sequence[FileStatus]) -> Group:
    return replace(
        like,
        partition=together[0].partition,
        paths=tuple(file.path for file in files),
        bytes=sum(file.size for file in files),
        definitions=tuple(change.definition for change in together),
        folders=tuple(change.folder for change in together),
    )


def _carry(like: Group, change: Change, shards: Sequence[str]) -> Job:
    assert change.held is not None  # nothing is carried from nowhere
    rows = change.refresh.rows_of(shards)
    sized = tuple((change.held.shard_path(shard), change.held.sizes[shard]) for shard in shards)
    files = [FileStatus(*row.values()) for row in rows.select(["path", "size", "mtime_ms", "etag"]).to_pylist()]
    return Job((change.index,), Carry(sized, rows, _group(like, [change], files)))
