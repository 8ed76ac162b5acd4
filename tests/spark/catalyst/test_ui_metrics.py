"""What Spark's UI shows of a narrowed scan, after each action on a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product, takewhile
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.spark.metastore import jvm_reader
from tests.asking import indexed, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ["blocks read", "blocks of all", "files read", "files of all"]
ACTIONS: dict[str, Callable[[DataFrame], Any]] = {
    "collect": lambda frame: frame.collect(),
    "toPandas": lambda frame: frame.toPandas(),
    "count": lambda frame: frame.count(),
    "show": lambda frame: frame.show(),
    "first": lambda frame: frame.first(),
    "noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}


@pytest.fixture(scope="module")
def table(spark: SparkSession, shared_database: str) -> Iterator[str]:
    """A table of four files and their blocks; the rows of a key lie in one block of two files."""
    spark.sql("CREATE TABLE t (k bigint, v bigint) USING parquet")
    with under(spark, {"spark.sql.shuffle.partitions": "1"}):
        rows = spark.range(0, 40_000, 1, 4).selectExpr("id % 20000 DIV 50 AS k", "id AS v")
        rows.write.option("parquet.block.size", 1 << 14).mode("append").insertInto("t")
    hive_bitmap.build(spark, "t", ["k"])
    yield f"{shared_database}.t"


def shown(spark: SparkSession, run: Callable[[], Any]) -> list[dict[str, int]]:
    """Return the metrics of the narrowed scans in the UI's store, of the executions that `run` causes."""
    jvm: Any = spark
    store = jvm._jsparkSession.sharedState().statusStore()
    before = next(_executions(store), -1)
    run()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = []
    for number in reversed(list(takewhile(lambda number: number > before, _executions(store)))):
        values = {int(one): value for one, value in jvm_reader.to_python(spark, store.executionMetrics(number)).items()}
        nodes = store.planGraph(number).allNodes()
        for node in (nodes.apply(i) for i in range(nodes.size())):
            if node.name().startswith("NarrowedScan"):
                metrics = [node.metrics().apply(i) for i in range(node.metrics().size())]
                found.append(
                    {one.name(): int(values.get(one.accumulatorId(), "0").replace(",", "")) for one in metrics}
                )
    return found


def _executions(store: Any) -> Iterator[int]:
    """Yield the ids of executions, the newest first. The store forgets the oldest of more than 1,000."""
    executions = store.executionsList()
    return (executions.apply(at).executionId() for at in reversed(range(executions.size())))


@pytest.mark.parametrize(
    ("strategy", "adaptive"), contract(product(["blocks", "files", "rows"], ["true", "false"]), ("blocks", "true"))
)
def test_each_action_shows_what_was_read(spark: SparkSession, table: str, strategy: str, adaptive: str) -> None:
    with (
        indexed(spark, strategy),
        under(spark, {"spark.sql.adaptive.enabled": adaptive, "hive_bitmap.driver_read_bytes": "0"}),
    ):
        query = f"SELECT v FROM {table} WHERE k = 7 AND v >= 0"  # a count is not for the index alone
        [relation] = hive_bitmap.explain(spark.sql(query)).relations
        assert relation.strategy == strategy
        blocks, files = relation.blocks_selected or 0, relation.files_selected or 0
        expected = dict(zip(NAMES, [blocks, relation.blocks_total, files, relation.files_total], strict=True))
        assert 0 < files < (relation.files_total or 0)
        for name, action in ACTIONS.items():
            frame = spark.sql(query)
            assert shown(spark, lambda frame=frame, action=action: action(frame)) == [expected], name  # type: ignore[misc]
            assert shown(spark, lambda frame=frame: frame.collect()) == [expected], f"collect after {name}"  # type: ignore[misc]
