"""Functions and values on their way to Spark's tasks, which reach stores as this process does, and results back."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.errors import StoreError
from hive_bitmap.metastore import metastore
from hive_bitmap.packages import for_tasks
from hive_bitmap.stores import options, requests
from hive_bitmap.stores.options import Options
from hive_bitmap.tasks import sockets, task_requests
from hive_bitmap.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = re.compile(r"hive_bitmap\.errors\.\w+: ")  # before a sentence that needs no name of its kind
_NAMED = re.compile(rf"{_OURS.pattern}|[^:]*Error")


def distribute(spark: SparkSession, items: Sequence[Any]) -> Any:
    """A DataFrame of one binary column with pickled items: neighbours make a task, as many tasks as run at once."""
    batches = [
        pa.record_batch([pa.array([pickle.dumps(item) for item in items[start:end]], pa.binary())], ["item"])
        for start, end in cuts(spark, len(items))
    ]
    return data_frame(spark, pa.Table.from_batches(batches))


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The items of a task, as `distribute` sent them."""
    sockets.set_no_delay()
    for batch in batches:
        for item in batch.column(0):
            yield pickle.loads(item.as_py())


def in_stores(
    spark: SparkSession, body: Callable[..., Iterator[pa.RecordBatch]], /, **given: Any
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """`body`, with these arguments, as what `mapInArrow` sends to tasks, which reach stores as this process does.

    What they ask of stores is added to `task_requests`.
    """
    return _sent(partial(body, **given), task_requests.counter(spark))


def _sent(
    body: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], counter: Any
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    return for_tasks(_reaching, body=body, reached=options.needed(), counter=counter)


def in_tasks(spark: SparkSession, items: Sequence[Any], run: Callable[[Any], Any]) -> list[Any]:
    """The results of `run`, a function of a module, for each of the items, in their order. Raises StoreError."""
    if not items:
        return []
    numbered = distribute(spark, list(enumerate(items)))
    tasks = _sent(partial(_results, run=run), None)  # each result comes with what was asked for it
    rows = numbered.mapInArrow(tasks, pickled("result")).collect()
    found = [pickle.loads(row[0]) for row in rows]
    for _, result, asked in found:
        requests.add(asked)
        if isinstance(result, StoreError):
            raise result
    return [result for _, result, _ in sorted(found, key=lambda one: one[0])]


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once."""
    return int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or metastore.default_parallelism(spark))


def pickled(name: str) -> Any:
    """One column of pickled values as a schema, which Spark need not parse."""
    from pyspark.sql.types import BinaryType, StructType

    return StructType().add(name, BinaryType())


def _reaching(
    batches: Iterable[pa.RecordBatch],
    body: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    reached: Options,
    counter: Any,
) -> Iterator[pa.RecordBatch]:
    options.use(partial(_same, reached))
    return body(batches) if counter is None else task_requests.counted(body(batches), counter)


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


def cuts(spark: SparkSession, count: int) -> list[tuple[int, int]]:
    """Which of so many items each task gets: as Spark cuts a local relation, or, if it is large, takes its batches."""
    tasks = min(count, parallelism(spark))
    return list(pairwise(count * task // tasks for task in range(tasks + 1)))


def cause(error: Exception) -> str:
    """The last line that names an error, what a Spark task's Python traceback ends in; else what Java says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _NAMED.match(line) and not line.startswith("at ")]
    java = [line.partition("Exception: ")[2] for line in lines if "Exception: " in line]
    return _OURS.sub("", (named or java[:1] or lines or [type(error).__name__])[-1])
