"""If the optimizer rule fails, the query runs as plain Spark's; in a strict session the error is raised."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException

import hive_bitmap
from hive_bitmap.spark.catalyst import decide, decision, driver_rows, execution, question, serving
from hive_bitmap.spark.catalyst.arrow_batches import batches
from hive_bitmap.spark.reading import superset
from hive_bitmap.spark.registry import catalog
from tests.asking import BY_TASKS, answer, by_spark, difference, frame, indexed
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NARROWING = "SELECT id FROM few WHERE k = 3"
COUNTING = "SELECT k, count(*) AS n FROM few WHERE k < 5 GROUP BY k"
STEPS = [  # a query, its strategy, and the function that is made to raise while it is planned
    (NARROWING, "blocks", catalog, "indexes_on"),
    (NARROWING, "blocks", decide, "condition"),
    (NARROWING, "blocks", question, "parse"),
    (NARROWING, "blocks", question, "prepare"),
    (NARROWING, "blocks", decide, "file_choices"),
    (NARROWING, "rows", driver_rows, "fetch_of"),
    (NARROWING, BY_TASKS, superset, "piece_rows"),
    (NARROWING, "files", decide, "read_figures"),
    (NARROWING, "blocks", decision, "label"),
    (COUNTING, "index only", question, "prepare"),
    (COUNTING, "index only", execution, "is_countable"),
]
# functions that are called when an answer from the index is executed
EXECUTION = [(execution, "as_now"), (execution, "known_counts"), (serving, "batches")]


@pytest.fixture(scope="module")
def few(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE TABLE few USING parquet AS SELECT id, CAST(id % 7 AS int) AS k FROM range(0, 4000, 1, 4)")
    hive_bitmap.build(spark, "few", ["k"])
    yield spark
    hive_bitmap.drop_table(spark, "few")


def broken(*args: Any, **kwargs: Any) -> Any:
    raise TypeError("broken on purpose")


@pytest.mark.parametrize(
    ("query", "strategy", "module", "step"),
    contract(STEPS, (NARROWING, "blocks", question, "prepare"), (COUNTING, "index only", execution, "is_countable")),
    ids=lambda one: getattr(one, "__name__", one),
)
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


def test_counts_that_do_not_come_leave_the_aggregation_to_spark(
    few: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a process that is stopped: what planning may take bounds counting too."""
    wanted, called, ended = by_spark(few, COUNTING), Event(), Event()

    def hang(*args: Any) -> None:
        called.set()
        ended.wait()

    with indexed(few, "index only", strict="false"):
        planned = frame(few, COUNTING)
        planned._jdf.queryExecution().executedPlan()
        monkeypatch.setattr(serving.Serving, "execute", hang)
        few.conf.set("hive_bitmap.planning_seconds", "0.01")
        try:
            assert not difference(answer(planned), wanted)
            assert called.is_set()
        finally:
            ended.set()
            few.conf.unset("hive_bitmap.planning_seconds")


@pytest.mark.parametrize(
    ("module", "step"),
    contract(EXECUTION, (execution, "known_counts")),
    ids=lambda one: getattr(one, "__name__", one),
)
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


def of_another_type(rows: pa.Table) -> Iterator[tuple[str, bytes]]:
    yield from batches(rows.set_column(0, "k", rows["k"].cast(pa.string())))


def of_another_width(rows: pa.Table) -> Iterator[tuple[str, bytes]]:
    yield from batches(rows.select([rows.column_names[-1]]))


def no_batch(rows: pa.Table) -> Iterator[tuple[str, bytes]]:
    yield from ((schema, batch[: len(batch) // 2]) for schema, batch in batches(rows))


def no_batches(rows: pa.Table) -> Iterator[tuple[str, bytes]]:
    yield from ()


@pytest.mark.parametrize(
    "sent", [of_another_type, of_another_width, no_batch, no_batches], ids=lambda one: one.__name__
)
def test_counts_that_the_jvm_cannot_use_leave_the_aggregation_to_spark(
    few: SparkSession, monkeypatch: pytest.MonkeyPatch, sent: Any
) -> None:
    wanted = by_spark(few, COUNTING)
    monkeypatch.setattr(serving, "batches", sent)
    with indexed(few, "index only", strict="false"):
        assert not difference(answer(frame(few, COUNTING)), wanted)
    with indexed(few, "index only"), pytest.raises(Exception, match=r"."):
        answer(frame(few, COUNTING))


@pytest.mark.parametrize("said", ["no JSON", '["file:/nowhere.parquet"]', "{}"])
def test_files_to_count_that_are_none_leave_the_aggregation_to_spark(
    few: SparkSession, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    count = serving.Serving.execute

    def counts(self: serving.Serving, spark: SparkSession, counting: Any) -> str:
        count(self, spark, counting)
        return said

    wanted = by_spark(few, COUNTING)
    monkeypatch.setattr(serving.Serving, "execute", counts)
    with indexed(few, "index only", strict="false"):
        assert not difference(answer(frame(few, COUNTING)), wanted)


@pytest.mark.contract
def test_a_query_that_was_cancelled_is_not_begun_again(few: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(self: serving.Serving, spark: SparkSession, counting: Any) -> str:
        raise TypeError("[SPARK_JOB_CANCELLED] Job 7 cancelled part of cancelled job group")

    monkeypatch.setattr(serving.Serving, "execute", counts)
    with indexed(few, "index only", strict="false"), pytest.raises(Exception, match="Job 7 cancelled"):
        answer(frame(few, COUNTING))


@pytest.mark.contract
def test_an_error_of_the_query_itself_is_sparks(few: SparkSession) -> None:
    query = "SELECT 10 DIV k, count(*) FROM few GROUP BY 1"
    with pytest.raises(ArithmeticException) as by_itself:
        by_spark(few, query)
    with indexed(few, "index only", strict="false"), pytest.raises(ArithmeticException) as with_the_index:
        answer(frame(few, query))
    assert str(with_the_index.value) == str(by_itself.value)


@pytest.mark.contract
def test_what_is_late_is_left_to_spark(few: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    wanted, prepare = by_spark(few, NARROWING), question.prepare

    def slow(*args: Any) -> Any:
        time.sleep(1)
        return prepare(*args)

    monkeypatch.setattr(question, "prepare", slow)
    with indexed(few, "blocks", strict="false", planning_seconds="0.1"):
        assert not difference(answer(frame(few, NARROWING)), wanted)
        assert [one.reason for one in hive_bitmap.explain(NARROWING, few).relations] == ["late"]
