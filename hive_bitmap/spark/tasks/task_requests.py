"""Count the requests that tasks send to stores.

Each Spark context has an accumulator. Only tasks that succeed are counted. Spark Connect has no accumulators, so
nothing is counted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.core.stores import requests
from hive_bitmap.core.stores.requests import Requests
from hive_bitmap.spark.metastore import jvm_reader

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class _Sum:
    """An AccumulatorParam that adds requests.

    The class is not a subclass of AccumulatorParam, so that tasks load it without `pyspark.accumulators`.
    """

    def zero(self, value: Requests) -> Requests:
        return Requests()

    def addInPlace(self, a: Requests, b: Requests) -> Requests:  # noqa: N802 - the name is Spark's
        return a + b


def counter(spark: SparkSession) -> Any:
    """Return the accumulator for the tasks of this session; None over Spark Connect."""
    return _counter(spark.sparkContext) if jvm_reader.available(spark) else None


def so_far(spark: SparkSession) -> Requests:
    """Return the requests of all tasks of this session's context so far.

    Return zero requests over Spark Connect.
    """
    accumulator = counter(spark)
    return Requests() if accumulator is None else accumulator.value


def counted(batches: Iterable[pa.RecordBatch], counter: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a task, and add its requests to the counter."""
    before = requests.so_far()
    try:
        yield from batches
    finally:
        counter.add(requests.so_far() - before)


@lru_cache(maxsize=8)
def _counter(context: SparkContext) -> Any:
    return context.accumulator(Requests(), _Sum())  # type: ignore[arg-type]
