"""Send functions and values to tasks, and return results.

Tasks use the store settings of this process. `SparkRunner` runs tasks in Spark. Tests replace it by a `Runner` that
runs tasks in the process of the test.

A Python worker collects garbage after each task, before it takes the next task:
https://github.com/apache/spark/blob/v4.0.0/python/pyspark/daemon.py (`gc.collect()` in `manager`). With the modules of
hive_bitmap, Arrow and DuckDB, each collection would visit some 75,000 objects, which takes 15 to 30 ms. So these
objects are exempt from collection (`gc.freeze`).

Spark sends the worker a function and then its input. If both are small, the input is held back until the function is
acknowledged (Nagle's algorithm, RFC 896), and the acknowledgement is delayed by up to 40 ms (RFC 1122, 4.2.3.2).
Socket options prevent this.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hive_bitmap.core.stores import options, requests
from hive_bitmap.core.stores.options import Options
from hive_bitmap.errors import MissingPackage, StoreError, Unsupported
from hive_bitmap.spark.metastore import jvm_reader, jvm_settings, metastore
from hive_bitmap.spark.metastore.jvm_settings import WORKER_PYTHON
from hive_bitmap.spark.packages import for_tasks
from hive_bitmap.spark.tasks import children, task_requests, worker_python
from hive_bitmap.spark.tasks.children import Died
from hive_bitmap.spark.tasks.worker_python import map_in_arrow
from hive_bitmap.spark.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPEN_FILES = Path("/proc/self/fd")
_OUR_ERROR = re.compile(r"hive_bitmap\.errors\.\w+: ")  # an error of this package in a traceback
_WORKER_DEATH = "Python worker exited unexpectedly"  # Spark's message
_ANY_ERROR = re.compile(rf"{_OUR_ERROR.pattern}|[^:]*Error")
Body = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]  # takes `received` items, yields `sent` results


def freeze_modules() -> None:
    """Exempt all present objects of this process from garbage collection.

    A repeated call has no effect unless more modules have been loaded.
    """
    _freeze(len(sys.modules))


@cache
def _freeze(modules: int) -> None:
    gc.collect()
    gc.freeze()


atexit.register(gc.unfreeze)  # an interpreter that ends frees its modules; DuckDB reports those that it cannot free


def set_no_delay() -> None:
    """Set TCP_NODELAY and TCP_QUICKACK on all open sockets of this process.

    Nothing is set on systems without TCP_QUICKACK or without /proc/self/fd, such as macOS.
    """
    if not hasattr(socket, "TCP_QUICKACK") or not _OPEN_FILES.is_dir():
        return
    for number in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):  # closed in the meantime, or not a TCP socket
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                _set_no_delay(number)


def _set_no_delay(number: int) -> None:
    open_socket = socket.socket(fileno=number)
    try:
        open_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        open_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        open_socket.detach()  # leave the descriptor open: it belongs to others


class Runner(Protocol):
    """A way to run a function in tasks."""

    def available(self, spark: SparkSession) -> bool:
        """Return whether this runner serves the session."""

    def run(
        self, spark: SparkSession, tasks: Sequence[pa.RecordBatch], body: Body, *, count_requests: bool
    ) -> list[bytes]:
        """Run `body` once for each task.

        `tasks` has one batch for each task, with the pickled items of the task. Return the pickled results that `body`
        yields, in any order. With `count_requests` the requests that `body` sends to stores are added to
        `task_requests`.
        """


class SparkRunner:
    """The runner for every Spark session.

    The runner starts a Spark job with one Spark task for each item of `tasks`. Raises MissingPackage if the Python of
    the executors lacks what tasks need.
    """

    def available(self, spark: SparkSession) -> bool:
        return True

    def run(
        self, spark: SparkSession, tasks: Sequence[pa.RecordBatch], body: Body, *, count_requests: bool
    ) -> list[bytes]:
        require_python(spark)
        work = _with_stores(body, task_requests.counter(spark) if count_requests else None)
        try:
            rows = map_in_arrow(data_frame(spark, pa.Table.from_batches(tasks)), work, pickled("result")).collect()
        except Exception as e:  # py4j's errors have no base class that can be imported without py4j
            if problem := worker_python.lack(spark, e):
                raise MissingPackage(problem) from e
            raise
        return [row[0] for row in rows]


RUNNERS: Sequence[Runner] = (SparkRunner(),)  # the first that is available for a session is used


def run(spark: SparkSession, items: Sequence[Any], body: Body, *, count_requests: bool = True) -> list[Any]:
    """Run `body` in tasks over all items; return the results in any order.

    Each task runs `body` over some of the items. With `count_requests`, requests to stores are added to
    `task_requests`. `body` must be a function of a module, or another value that can be pickled. Raises the errors of
    tasks, and Unsupported if the session names another Python than its application (`require_python`).
    """
    runner = next(runner for runner in RUNNERS if runner.available(spark))
    tasks = _tasks(spark, items, None)
    return [
        pickle.loads(pickled_result) for pickled_result in runner.run(spark, tasks, body, count_requests=count_requests)
    ]


def distribute(spark: SparkSession, items: Sequence[Any], most: int | None = None) -> Any:
    """Return a DataFrame with a row for each task, as input of `mapInArrow`.

    The only column has the pickled items of the task. The items are divided among at most `most` tasks (`cuts`); None
    stands for as many tasks as the session runs at once.
    """
    return data_frame(spark, pa.Table.from_batches(_tasks(spark, items, most)))


def _tasks(spark: SparkSession, items: Sequence[Any], most: int | None) -> list[pa.RecordBatch]:
    return [
        pa.record_batch([pa.array([pickle.dumps(list(items[start:end]))], pa.binary())], ["items"])
        for start, end in cuts(spark, len(items), most)
    ]


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """Yield the items of a task, as `distribute` sent them."""
    set_no_delay()
    for batch in batches:
        for items in batch.column(0):
            yield from pickle.loads(items.as_py())


def sent(result: Any) -> pa.RecordBatch:
    """Return a result of a task as the batch that `run` expects."""
    return pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], ["result"])


def with_store_settings(
    spark: SparkSession, body: Callable[..., Iterator[pa.RecordBatch]], /, **arguments: Any
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Bind `arguments` to `body`, and return the result as a function for `mapInArrow`.

    The function uses the store settings of this process, and adds its requests to stores to `task_requests`. Raises
    Unsupported if the session names another Python than its application (`require_python`).
    """
    require_python(spark)
    return _with_stores(partial(body, **arguments), task_requests.counter(spark))


def _with_stores(body: Body, counter: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    return for_tasks(_run_in_task, body=body, store_options=options.needed(), counter=counter)


def in_tasks(spark: SparkSession, items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Compute function(item) in tasks, and return the results in order.

    `function` must be a function of a module, or another value that can be pickled. Raises StoreError if a store fails
    in a task. Raises MissingPackage if the Python of the executors lacks what tasks need, and Unsupported if the
    session names another Python than its application (`require_python`).
    """
    return _in_tasks(spark, items, function, apart=False)


def in_surviving_tasks(spark: SparkSession, items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Compute function(item) in tasks, even for items that crash their process.

    Return the results in the order of the items. The result of an item that crashes is `children.Died`. If a Python
    worker dies, all items are computed again, in child processes of the tasks.
    """
    try:
        return _in_tasks(spark, items, function, apart=False)
    except Exception as e:  # no narrower class: without py4j (Spark Connect) its errors cannot be imported
        if not is_worker_death(e):
            raise
    return in_child_processes(spark, items, function)


def in_child_processes(spark: SparkSession, items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Compute function(item) for each item, in child processes of tasks.

    Return the results in the order of the items. The result is `children.Died` for an item that crashes its process.
    """
    return _in_tasks(spark, items, function, apart=True)


def is_worker_death(error: Exception) -> bool:
    """Return whether a job failed because a Python worker ended.

    A worker may end by a signal, for example.
    """
    return _WORKER_DEATH in str(error)


def _in_tasks(spark: SparkSession, items: Sequence[Any], function: Callable[[Any], Any], *, apart: bool) -> list[Any]:
    if not items:
        return []
    body = partial(_results, function=function, apart=apart)
    results = run(spark, list(enumerate(items)), body, count_requests=False)
    for _, result, sent_requests in results:
        requests.add(sent_requests)
        if isinstance(result, StoreError):
            raise result
    return [result for _, result, _ in sorted(results, key=lambda numbered: numbered[0])]


def require_python(spark: SparkSession) -> None:
    """Raise Unsupported if the session's tasks use another Python than its application.

    If a session names a Python program, Spark starts this program as the application's user, for any Python task.
    Without hive_bitmap, clients of a server run no Python tasks, and so cannot start a program in this way.
    """
    if jvm_reader.available(spark) and jvm_settings.has_own_python(spark):
        raise Unsupported(
            f"tasks of hive_bitmap run the application's Python, but {WORKER_PYTHON} of this session names another "
            f"one: RESET {WORKER_PYTHON}"
        )


def parallelism(spark: SparkSession) -> int:
    """Return about how many tasks the session runs at once.

    This is spark.sql.leafNodeDefaultParallelism if it is set, else `metastore.default_parallelism`.
    """
    return int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or metastore.default_parallelism(spark))


def pickled(name: str) -> Any:
    """Return a schema of one binary column.

    The schema is built without a text that Spark would have to parse.
    """
    from pyspark.sql.types import BinaryType, StructType

    return StructType().add(name, BinaryType())


def _run_in_task(
    batches: Iterable[pa.RecordBatch],
    body: Body,
    store_options: Options,
    counter: Any,
) -> Iterator[pa.RecordBatch]:
    options.use(lambda: store_options)
    yield from body(batches) if counter is None else task_requests.counted(body(batches), counter)
    freeze_modules()


def _results(
    batches: Iterable[pa.RecordBatch], function: Callable[[Any], Any], apart: bool
) -> Iterator[pa.RecordBatch]:
    measured = partial(_measured, function)
    if apart:
        numbered = list(received(batches))
        results_in_order = children.results(measured, [work for _, work in numbered])
        pairs: Iterable[tuple[int, Any]] = zip((number for number, _ in numbered), results_in_order, strict=True)
    else:
        pairs = ((number, measured(work)) for number, work in received(batches))
    for number, measured_result in pairs:
        result, requested = (
            (measured_result, requests.Requests()) if isinstance(measured_result, Died) else measured_result
        )
        yield sent((number, result, requested))  # the driver adds these requests, so they need no accumulator


def _measured(function: Callable[[Any], Any], work: Any) -> tuple[Any, requests.Requests]:
    """Return the result of a function, and the requests that it sent to stores."""
    with requests.measured() as measured:
        result = _result_or_store_error(function, work)
    return result, measured.requests


def _result_or_store_error(function: Callable[[Any], Any], work: Any) -> Any:
    """Return the result of a function, or its StoreError for the driver to raise."""
    try:
        return function(work)
    except StoreError as e:
        return e


def store_error_of(error: Exception) -> StoreError | None:
    """Return the StoreError that made a task fail; None for another cause."""
    error_name = f"{StoreError.__name__}: "
    if isinstance(error, StoreError):
        return error
    messages = [
        line.partition(error_name)[2] for line in str(error).splitlines() if error_name in line.partition(" ")[0] + " "
    ]
    return StoreError(messages[0].strip()) if messages else None


def cuts(spark: SparkSession, count: int, most: int | None = None) -> list[tuple[int, int]]:
    """Divide `count` items among tasks; return the start and end of each task's items.

    There are at most `most` tasks (None: no limit), and never more than items or than the session runs at once.
    """
    tasks = min(count, parallelism(spark), most or count)
    return list(pairwise(count * task // tasks for task in range(tasks + 1)))


def failure(spark: SparkSession, error: Exception) -> str:
    """Return why a job failed: what the Python of the tasks lacks, else the `cause`."""
    return worker_python.lack(spark, error) or cause(error)


def cause(error: Exception) -> str:
    """Return the message of the error that made a Spark task fail.

    The message is the last line that names an error, at the end of the Python traceback. Without a Python traceback, it
    is the first exception of Java.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    error_lines = [line for line in lines if _ANY_ERROR.match(line) and not line.startswith("at ")]
    java_messages = [line.partition("Exception: ")[2] for line in lines if "Exception: " in line]
    return _OUR_ERROR.sub("", (error_lines or java_messages[:1] or lines or [type(error).__name__])[-1])
