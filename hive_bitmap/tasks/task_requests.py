"""What Spark's tasks ask of stores, added up in the driver by one of Spark's accumulators, a context each.

Counted is what tasks did that ended well. Spark Connect has no accumulators: there it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hive_bitmap.metastore import jvm_reader
from hive_bitmap.stores import requests
from hive_bitmap.stores.requests import Requests

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class _Sum:
    """How Spark adds requests up: an AccumulatorParam, which tasks can load without Spark's module of them."""

    def zero(self, value: Requests) -> Requests:
        return Requests()

    def addInPlace(self, a: Requests, b: Requests) -> Requests:  # noqa: N802 - the name is Spark's
        return a + b


def counter(spark: SparkSession) -> Any:
    """The accumulator for tasks of this session; None where there is none."""
    return _counter(spark.sparkContext) if jvm_reader.available(spark) else None


def so_far(spark: SparkSession) -> Requests:
    """What the tasks of this session's context have asked, as far as it is known."""
    found = counter(spark)
    return Requests() if found is None else found.value


def counted(batches: Iterable[pa.RecordBatch], counter: Any) -> Iterator[pa.RecordBatch]:
    """In a task: the same batches; what was asked for them is added to the counter."""
    before = requests.so_far()
    try:
        yield from batches
    finally:
        counter.add(requests.so_far() - before)


@lru_cache(maxsize=8)
def _counter(context: SparkContext) -> Any:
    return context.accumulator(Requests(), _Sum())  # type: ignore[arg-type]
