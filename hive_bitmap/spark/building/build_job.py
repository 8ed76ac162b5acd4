"""Run the Spark job of a build.

Its tasks index groups of files and compact shards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.indexing.group_indexing import AHEAD_BYTES, Group, ShardReport, index_group, try_files
from hive_bitmap.core.indexing.shard_compaction import Compaction, compact_shards
from hive_bitmap.core.parallel import THREADS, batches, map_parallel
from hive_bitmap.errors import BuildFailed
from hive_bitmap.spark.building.progress import BuildProgress, reported
from hive_bitmap.spark.tasks import distribution
from hive_bitmap.spark.tasks.children import Died
from hive_bitmap.spark.tasks.distribution import (
    cause,
    cuts,
    in_child_processes,
    is_worker_death,
    received,
    require_python,
    sent,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Job:
    """A unit of work for a task: index a group of files, or compact shards.

    The job writes into one new segment for each of its indexes; `segments` has the positions of these segments among
    all new segments of the build.
    """

    segments: tuple[int, ...]
    work: Group | Compaction

    @property
    def group(self) -> Group:
        return self.work if isinstance(self.work, Group) else self.work.group


class WorkerDied(BuildFailed):
    """The build failed because a Python worker ended, for example by a signal."""


def run(
    spark: SparkSession, jobs: Sequence[Job], progress: Callable[[BuildProgress], None] | None
) -> list[ShardReport]:
    """Run the jobs in tasks; return a report for each shard.

    `ShardReport.index` is the position of the shard's segment among all new segments of the build. `progress` is called
    with what is finished; None for no calls. Raises BuildFailed, WorkerDied if a Python worker ended, and Unsupported
    if the session names a Python of its own (`require_python`).
    """
    if not jobs:
        return []
    require_python(spark)
    files = sum(len(job.work.paths) for job in jobs if isinstance(job.work, Group))
    with reported(spark, files, progress) as counter:
        try:
            capacity = [end - start for start, end in cuts(spark, len(jobs))]
            return distribution.run(spark, balanced(jobs, capacity), partial(run_jobs, counter=counter))
        except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
            raise _failed(e) from e


def fatal_files(spark: SparkSession, jobs: Sequence[Job]) -> dict[str, str]:
    """Try each base file of the jobs in a child process of a task.

    The keys of the result are the paths of files that end the child process; the values are the reasons. Raise
    BuildFailed.
    """
    groups = [job.work for job in jobs if isinstance(job.work, Group)]
    files = [group.of([path]) for group in groups for path in group.paths]
    try:
        outcomes = in_child_processes(spark, files, try_files)
    except Exception as e:  # no narrower class, as in `run`
        raise _failed(e) from e
    return {file.paths[0]: died.reason for file, died in zip(files, outcomes, strict=True) if isinstance(died, Died)}


def _failed(error: Exception) -> BuildFailed:
    failure = WorkerDied if is_worker_death(error) else BuildFailed
    return failure(f"the build failed, the published index is untouched: {cause(error)}")


def balanced(jobs: Sequence[Job], capacity: Sequence[int]) -> list[Job]:
    """Order the jobs so that all tasks read about the same number of bytes.

    A task gets consecutive jobs. `capacity` has the number of jobs of each task. The largest jobs are assigned first,
    each to the task with the fewest bytes so far.
    """
    tasks: list[list[Job]] = [[] for _ in capacity]
    for job in sorted(jobs, key=lambda job: -job.work.bytes):
        not_full = (task for task, most in zip(tasks, capacity, strict=True) if len(task) < most)
        min(not_full, key=lambda task: sum(job.work.bytes for job in task)).append(job)
    return [job for task in tasks for job in task]


def run_jobs(records: Iterable[pa.RecordBatch], counter: Any) -> Iterator[pa.RecordBatch]:
    """Inside a task: run its jobs, and yield a ShardReport for each shard.

    `records` has the jobs of the task as `distribution.received` reads them; reports are yielded as `distribution.sent`
    makes them. Finished files, rows and bytes are added to the accumulator `counter`, unless it is None.
    """
    for jobs in batches(received(records), weight, THREADS, AHEAD_BYTES):
        for job, reports in zip(jobs, map_parallel(_run_job, jobs), strict=True):
            if counter is not None and isinstance(job.work, Group):
                once = [report for report in reports if report.index == 0]  # the same files for every index
                size = sum(size for report in once for size in report.files["size"].to_pylist() if size > 0)
                counter.add((len(job.work.paths), sum(report.base_rows for report in once), size))
            numbered = [replace(report, index=job.segments[report.index]) for report in reports]
            yield from map(sent, numbered)


def weight(job: Job) -> float:
    """Return the bytes that a job reads, to limit batches of parallel jobs.

    The result is infinite for a local store, so that each job is a separate batch.
    """

    return job.work.bytes if stores.parallel(job.group.folders[0]) > 1 else math.inf


def _run_job(job: Job) -> list[ShardReport]:
    return index_group(job.work) if isinstance(job.work, Group) else compact_shards(job.work)
