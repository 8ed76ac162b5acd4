"""The Spark job of a build: groups of base files and shards to write anew travel to tasks, reports come back."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.building.group_indexing import Group, ShardReport, index_group
from hive_bitmap.building.progress import Done, watched
from hive_bitmap.building.shard_compaction import Carry, carry
from hive_bitmap.errors import BuildFailed, StoreError
from hive_bitmap.metastore import metastore
from hive_bitmap.packages import for_tasks
from hive_bitmap.stores import options, requests
from hive_bitmap.stores.options import Options
from hive_bitmap.tasks import sockets
from hive_bitmap.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = re.compile(r"hive_bitmap\.errors\.\w+: ")  # before a sentence that needs no name of its kind
_NAMED = re.compile(rf"{_OURS.pattern}|[^:]*Error")


@dataclass(frozen=True)
class Job:
    """Work for a task that reads so many bytes, and the numbers in the build of the indexes that it is for."""

    indexes: tuple[int, ...]
    work: Group | Carry
    bytes: int


def run(spark: SparkSession, jobs: Sequence[Job], progress: Callable[[Done], None] | None) -> list[ShardReport]:
    """What the tasks wrote, by the numbers of the indexes in the build. Raises BuildFailed."""
    if not jobs:
        return []
    files = sum(len(job.work.paths) for job in jobs if isinstance(job.work, Group))
    with watched(spark, files, progress) as counter:
        tasks = in_stores(_batches, counter=counter)
        try:
            rows = distribute(spark, _dealt(spark, jobs)).mapInArrow(tasks, _pickled("report")).collect()
        except Exception as e:  # py4j's errors, of a worker that died, have no parent that is there without py4j
            raise BuildFailed(f"the build failed, the published index is untouched: {cause(e)}") from e
    return [pickle.loads(row[0]) for row in rows]


def distribute(spark: SparkSession, items: Sequence[Any]) -> Any:
    """A DataFrame of one binary column with pickled items: neighbours make a task, as many tasks as run at once."""
    batches = [
        pa.record_batch([pa.array([pickle.dumps(item) for item in items[start:end]], pa.binary())], ["item"])
        for start, end in _cuts(spark, len(items))
    ]
    return data_frame(spark, pa.Table.from_batches(batches))


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The items of a task, as `distribute` sent them."""
    sockets.hurry()
    for batch in batches:
        for item in batch.column(0):
            yield pickle.loads(item.as_py())


def in_stores(
    body: Callable[..., Iterator[pa.RecordBatch]], /, **given: Any
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """`body`, with these arguments, as what `mapInArrow` sends to tasks, which reach stores as this process does."""
    return for_tasks(_reaching, body=partial(body, **given), reached=options.needed())


def in_tasks(spark: SparkSession, items: Sequence[Any], run: Callable[[Any], Any]) -> list[Any]:
    """The results of `run`, a function of a module, for each of the items, in their order. Raises StoreError."""
    if not items:
        return []
    numbered = distribute(spark, list(enumerate(items)))
    rows = numbered.mapInArrow(in_stores(_results, run=run), _pickled("result")).collect()
    found = [pickle.loads(row[0]) for row in rows]
    for _, result, asked in found:
        requests.add(asked)
        if isinstance(result, StoreError):
            raise result
    return [result for _, result, _ in sorted(found, key=lambda one: one[0])]


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once."""
    return int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or metastore.default_parallelism(spark))


def _pickled(name: str) -> Any:
    """One column of pickled values as a schema, which Spark need not parse."""
    from pyspark.sql.types import BinaryType, StructType

    return StructType().add(name, BinaryType())


def _reaching(
    batches: Iterable[pa.RecordBatch],
    body: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    reached: Options,
) -> Iterator[pa.RecordBatch]:
    options.use(partial(_same, reached))
    return body(batches)


def _same(reached: Options) -> Options:
    return reached


def _results(batches: Iterable[pa.RecordBatch], run: Callable[[Any], Any]) -> Iterator[pa.RecordBatch]:
    for number, work in received(batches):
        with requests.measured() as measured:
            result = _told(run, work)
        yield pa.record_batch([pa.array([pickle.dumps((number, result, measured.requests))], pa.binary())], ["result"])


def _told(run: Callable[[Any], Any], work: Any) -> Any:
    """The result, or the error of a store, which the driver raises as it is."""
    try:
        return run(work)
    except StoreError as e:
        return e


def store_failed(error: Exception) -> StoreError | None:
    """The error of a store that ended a task, and with it a query; None where it was something else."""
    named = f"{StoreError.__name__}: "
    if isinstance(error, StoreError):
        return error
    found = [line.partition(named)[2] for line in str(error).splitlines() if named in line.partition(" ")[0] + " "]
    return StoreError(found[0].strip()) if found else None


def _cuts(spark: SparkSession, count: int) -> list[tuple[int, int]]:
    """Which of so many items each task gets: as Spark cuts a local relation, or, if it is large, takes its batches."""
    tasks = min(count, parallelism(spark))
    return list(pairwise(count * task // tasks for task in range(tasks + 1)))


def _dealt(spark: SparkSession, jobs: Sequence[Job]) -> list[Job]:
    """The jobs in an order in which all tasks of `distribute` have about as much to do; the largest are dealt first."""
    room = [end - start for start, end in _cuts(spark, len(jobs))]
    hands: list[list[Job]] = [[] for _ in room]
    for job in sorted(jobs, key=lambda job: -job.bytes):
        open_hands = (hand for hand, most in zip(hands, room, strict=True) if len(hand) < most)
        min(open_hands, key=lambda hand: sum(held.bytes for held in hand)).append(job)
    return [job for hand in hands for job in hand]


def _batches(batches: Iterable[pa.RecordBatch], counter: Any) -> Iterator[pa.RecordBatch]:
    for job in received(batches):
        reports = index_group(job.work) if isinstance(job.work, Group) else carry(job.work)
        if counter is not None and isinstance(job.work, Group):
            mine = [report for report in reports if report.index == 0]
            size = sum(size for report in mine for size in report.files["size"].to_pylist() if size > 0)
            counter.add((len(job.work.paths), sum(report.base_rows for report in mine), size))
        numbered = [replace(report, index=job.indexes[report.index]) for report in reports]
        yield pa.record_batch([pa.array([pickle.dumps(report) for report in numbered], pa.binary())], ["report"])


def cause(error: Exception) -> str:
    """The last line that names an error, what a Spark task's Python traceback ends in; else what Java says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _NAMED.match(line) and not line.startswith("at ")]
    java = [line.partition("Exception: ")[2] for line in lines if "Exception: " in line]
    return _OURS.sub("", (named or java[:1] or lines or [type(error).__name__])[-1])
