"""Items that are sent to tasks: each once, in order, in no more tasks than are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hive_bitmap.spark.tasks.distribution import cuts, distribute, in_tasks, parallelism, pickled, received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The items of a task, as one text."""
    text = ",".join(map(str, received(batches)))
    yield pa.record_batch([pa.array([text.encode()], pa.binary())], ["items"])


@pytest.mark.parametrize(("count", "most"), [(1, None), (7, None), (7, 1), (7, 100), (2, 2)])
def test_items_are_sent_once_in_order(spark: SparkSession, count: int, most: int | None) -> None:
    sent = distribute(spark, list(range(count)), most)
    tasks = min(count, parallelism(spark), most or count)
    assert sent.rdd.getNumPartitions() == len(cuts(spark, count, most)) == tasks
    found = [row[0].decode() for row in sent.mapInArrow(sums, pickled("items")).collect()]
    assert len(found) == tasks
    assert ",".join(found) == ",".join(map(str, range(count)))


def test_results_are_in_the_order_of_the_items(spark: SparkSession) -> None:
    assert in_tasks(spark, list(range(9)), str) == [str(number) for number in range(9)]
    assert in_tasks(spark, [], str) == []
