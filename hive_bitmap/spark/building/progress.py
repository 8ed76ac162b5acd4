"""Report the progress of a build.

Tasks add what they have finished to an accumulator, which a driver thread reads and reports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 0.2  # between two reports


@dataclass(frozen=True)
class BuildProgress:
    """What a build has finished: base files, their rows and bytes.

    `files_total` is the number of files to index.
    """

    files: int
    files_total: int
    rows: int
    bytes: int


@contextmanager
def reported(spark: SparkSession, files: int, callback: Callable[[BuildProgress], None] | None) -> Iterator[Any]:
    """Yield an accumulator for tasks, and report its value to `callback`.

    The value (files, rows, bytes) is reported until the `with` block ends. The accumulator is None without a callback,
    and on Spark Connect, which has no accumulators. On Spark Connect, the callback is called once, at the end, with 0
    rows and bytes. An exception of the callback is raised at the end of the `with` block.
    """
    if callback is None:
        yield None
        return
    counter = _counter(spark)
    stop = threading.Event()

    def report() -> None:
        while counter is not None and not stop.wait(SECONDS):
            done, rows, size = counter.value
            callback(BuildProgress(done, files, rows, size))

    with ThreadPoolExecutor(1) as pool:
        reporting = pool.submit(report)
        try:
            yield counter
        finally:
            stop.set()
    reporting.result()
    done, rows, size = counter.value if counter is not None else (files, 0, 0)
    callback(BuildProgress(done, files, rows, size))


def _counter(spark: SparkSession) -> Any:
    from hive_bitmap.spark.metastore import jvm_reader

    if not jvm_reader.available(spark):
        return None
    from pyspark.accumulators import AccumulatorParam

    class Sums(AccumulatorParam[tuple[int, int, int]]):
        "How the accumulator adds up triples (files, rows, bytes)."

        def zero(self, value: tuple[int, int, int]) -> tuple[int, int, int]:
            return (0, 0, 0)

        def addInPlace(  # noqa: N802 - the name is Spark's
            self, a: tuple[int, int, int], b: tuple[int, int, int]
        ) -> tuple[int, int, int]:
            return (a[0] + b[0], a[1] + b[1], a[2] + b[2])

    return spark.sparkContext.accumulator((0, 0, 0), Sums())
