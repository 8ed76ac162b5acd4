"""Items that are sent to tasks: each once, in order, in no more tasks than are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore.jvm_settings import WORKER_PYTHON
from hive_bitmap.spark.tasks.distribution import (
    cuts,
    distribute,
    in_tasks,
    parallelism,
    pickled,
    received,
    with_store_settings,
)
from tests.asking import indexed, under

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


@pytest.mark.contract
def test_tasks_run_the_python_of_the_application(spark: SparkSession) -> None:
    """Of a server, all of whose clients could have it start any program else."""
    with under(spark, {WORKER_PYTHON: "/bin/false"}):
        with pytest.raises(Unsupported, match=f"names another one: RESET {WORKER_PYTHON}"):
            in_tasks(spark, [1], str)
        with pytest.raises(Unsupported):
            with_store_settings(spark, sums)
    assert in_tasks(spark, [1], str) == ["1"]


@pytest.mark.parametrize("strategy", [pytest.param("rows", marks=pytest.mark.contract), "blocks", "index only"])
def test_with_another_python_queries_are_answered_and_nothing_is_built(
    spark: SparkSession, database: str, strategy: str
) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 7 AS k, id AS v FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark, strategy), under(spark, {WORKER_PYTHON: "/bin/false", "hive_bitmap.driver_read_bytes": "0"}):
        assert len(spark.sql("SELECT v FROM t WHERE k = 3").collect()) == 143
        assert spark.sql("SELECT count(*) FROM t WHERE k = 3").first()[0] == 143
        with pytest.raises(Unsupported):
            hive_bitmap.build(spark, "t", ["v"])
    assert [one.definition.name for one in hive_bitmap.show(spark, "t")] == ["k"]


def test_results_are_in_the_order_of_the_items(spark: SparkSession) -> None:
    assert in_tasks(spark, list(range(9)), str) == [str(number) for number in range(9)]
    assert in_tasks(spark, [], str) == []
