"""The Spark job of a build: groups of files and shards to compact travel to tasks, reports come back."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap import parallel, stores
from hive_bitmap.building.group_indexing import AHEAD_BYTES, Group, ShardReport, index_group
from hive_bitmap.building.progress import Done, watched
from hive_bitmap.building.shard_compaction import Carry, carry
from hive_bitmap.errors import BuildFailed
from hive_bitmap.tasks.distribution import cause, cuts, distribute, in_stores, pickled, received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Job:
    """Work for a task, and the numbers in the build of the indexes that it is for."""

    indexes: tuple[int, ...]
    work: Group | Carry

    @property
    def group(self) -> Group:
        return self.work if isinstance(self.work, Group) else self.work.group


def run(spark: SparkSession, jobs: Sequence[Job], progress: Callable[[Done], None] | None) -> list[ShardReport]:
    """What the tasks wrote, by the numbers of the indexes in the build. Raises BuildFailed."""
    if not jobs:
        return []
    files = sum(len(job.work.paths) for job in jobs if isinstance(job.work, Group))
    with watched(spark, files, progress) as counter:
        tasks = in_stores(spark, _batches, counter=counter)
        try:
            rows = distribute(spark, _dealt(spark, jobs)).mapInArrow(tasks, pickled("report")).collect()
        except Exception as e:  # py4j's errors, of a worker that died, have no parent that is there without py4j
            raise BuildFailed(f"the build failed, the published index is untouched: {cause(e)}") from e
    return [pickle.loads(row[0]) for row in rows]


def _dealt(spark: SparkSession, jobs: Sequence[Job]) -> list[Job]:
    """The jobs in an order in which all tasks of `distribute` have about as much to do; the largest are dealt first."""
    room = [end - start for start, end in cuts(spark, len(jobs))]
    hands: list[list[Job]] = [[] for _ in room]
    for job in sorted(jobs, key=lambda job: -job.work.bytes):
        open_hands = (hand for hand, most in zip(hands, room, strict=True) if len(hand) < most)
        min(open_hands, key=lambda hand: sum(held.work.bytes for held in hand)).append(job)
    return [job for hand in hands for job in hand]


def _batches(records: Iterable[pa.RecordBatch], counter: Any) -> Iterator[pa.RecordBatch]:
    for jobs in parallel.batches(received(records), _weight, parallel.THREADS, AHEAD_BYTES):
        for job, reports in zip(jobs, parallel.each(_done, jobs), strict=True):
            if counter is not None and isinstance(job.work, Group):
                mine = [report for report in reports if report.index == 0]
                size = sum(size for report in mine for size in report.files["size"].to_pylist() if size > 0)
                counter.add((len(job.work.paths), sum(report.base_rows for report in mine), size))
            numbered = [replace(report, index=job.indexes[report.index]) for report in reports]
            yield pa.record_batch([pa.array([pickle.dumps(report) for report in numbered], pa.binary())], ["report"])


def _weight(job: Job) -> float:
    """The bytes that a job reads; infinite for one that waits for no store, and so is done by itself."""
    return job.work.bytes if stores.parallel(job.group.folders[0]) > 1 else math.inf


def _done(job: Job) -> list[ShardReport]:
    return index_group(job.work) if isinstance(job.work, Group) else carry(job.work)
