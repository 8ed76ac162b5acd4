"""An estimate of a small table needs no job where Spark runs here, and is the same as that of tasks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hive_bitmap.errors import StoreError
from hive_bitmap.spark.estimating import near_reads
from hive_bitmap.spark.estimating.estimate import Estimate, estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, database: str) -> str:
    rows = "SELECT /*+ REPARTITION(5) */ id AS k, cast(id % 7 AS string) AS s FROM range(999)"
    spark.sql(f"CREATE TABLE t USING parquet AS {rows}")
    return "t"


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that ran in tasks."""
    ran: list[str] = []
    run = near_reads.in_tasks

    def in_tasks(spark: SparkSession, items: Sequence[Any], function: Any) -> list[Any]:
        ran.append(function.__name__)
        return run(spark, items, function)

    monkeypatch.setattr(near_reads, "in_tasks", in_tasks)
    return ran


def estimated(spark: SparkSession, table: str, **options: Any) -> list[Estimate]:
    return [replace(one, seconds=0.0) for one in estimate(spark, table, ["k", "s", ["k", "s"]], **options)]


@pytest.mark.parametrize("limit", ["FOOTERS", "ROWS", "KEY_BYTES"])
def test_tasks_and_this_process_estimate_the_same(
    spark: SparkSession, table: str, in_tasks: list[str], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    here = estimated(spark, table)
    assert in_tasks == []
    monkeypatch.setattr(near_reads, limit, 0)
    assert estimated(spark, table) == here
    assert in_tasks == ["read_footer" if limit == "FOOTERS" else "measure"]


def test_tasks_measure_what_is_made_larger_than_its_sample(
    spark: SparkSession, table: str, in_tasks: list[str]
) -> None:
    estimated(spark, table, type="COMPACT")
    assert in_tasks == ["measure"]


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", ""])
def test_tasks_of_other_machines_read(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    def in_tasks(*_: object) -> None:
        raise StoreError("asked")

    monkeypatch.setattr(near_reads, "in_tasks", in_tasks)
    monkeypatch.setattr(near_reads.session_stores, "use", lambda spark: None)
    spark: Any = SimpleNamespace(conf={"spark.master": master})
    for ask in (lambda: near_reads.footers(spark, []), lambda: near_reads.samples(spark, [], 0)):
        with pytest.raises(StoreError, match="asked"):
            ask()
