"""If the optimizer rule fails, the query runs as plain Spark's; in a strict session the error is raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.catalyst import decisions, index_answers, planning
from hive_bitmap.index import catalog
from tests.asking import answer, by_spark, difference, frame, indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NARROWING = "SELECT id FROM few WHERE k = 3"
COUNTING = "SELECT k, count(*) AS n FROM few WHERE k < 5 GROUP BY k"
STEPS = [  # a query, its strategy, and the function that is made to raise while it is planned
    (NARROWING, "blocks", catalog, "indexes_on"),
    (NARROWING, "blocks", decisions, "condition"),
    (NARROWING, "blocks", planning, "parse"),
    (NARROWING, "blocks", decisions, "prepare"),
    (NARROWING, "blocks", decisions, "file_choices"),
    (NARROWING, "rows", decisions, "superset_rows"),
    (NARROWING, "files", decisions, "read_figures"),
    (NARROWING, "blocks", decisions, "report"),
    (COUNTING, "index only", decisions, "prepare"),
    (COUNTING, "index only", index_answers, "is_countable"),
]
# functions that are called when an answer from the index is executed
EXECUTION = [(index_answers, "as_now"), (index_answers, "known_counts"), (planning, "batches")]


@pytest.fixture(scope="module")
def few(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE TABLE few USING parquet AS SELECT id, CAST(id % 7 AS int) AS k FROM range(0, 4000, 1, 4)")
    hive_bitmap.build(spark, "few", ["k"])
    yield spark
    hive_bitmap.drop_table(spark, "few")


def broken(*args: Any, **kwargs: Any) -> Any:
    raise TypeError("broken on purpose")


@pytest.mark.parametrize(("query", "strategy", "module", "step"), STEPS, ids=lambda one: getattr(one, "__name__", one))
def test_a_failure_while_planning_leaves_the_plan_to_spark(
    few: SparkSession, monkeypatch: pytest.MonkeyPatch, query: str, strategy: str, module: Any, step: str
) -> None:
    wanted = by_spark(few, query)
    monkeypatch.setattr(module, step, broken)
    with indexed(few, strategy, strict="false"):
        assert not difference(answer(frame(few, query)), wanted)
        [said] = hive_bitmap.explain(query, few).relations
        assert (said.action, said.reason) == ("left alone", "error")
    with indexed(few, strategy), pytest.raises(Exception, match="broken on purpose"):
        answer(frame(few, query))


@pytest.mark.parametrize(("module", "step"), EXECUTION, ids=lambda one: getattr(one, "__name__", one))
def test_a_failure_while_counting_leaves_the_aggregation_to_spark(
    few: SparkSession, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    wanted = by_spark(few, COUNTING)
    with indexed(few, "index only", strict="false"):
        planned = frame(few, COUNTING)
        planned._jdf.queryExecution().executedPlan()
        monkeypatch.setattr(module, step, broken)
        assert not difference(answer(planned), wanted)
    with indexed(few, "index only"), pytest.raises(Exception, match="broken on purpose"):
        answer(frame(few, COUNTING))


def test_what_is_late_is_left_to_spark(few: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    wanted, prepare = by_spark(few, NARROWING), decisions.prepare

    def slow(*args: Any) -> Any:
        time.sleep(1)
        return prepare(*args)

    monkeypatch.setattr(decisions, "prepare", slow)
    with indexed(few, "blocks", strict="false", planning_seconds="0.1"):
        assert not difference(answer(frame(few, NARROWING)), wanted)
        assert [one.reason for one in hive_bitmap.explain(NARROWING, few).relations] == ["late"]
