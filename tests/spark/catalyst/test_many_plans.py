"""Many queries that are planned at once: none waits long for a plan, and none is punished for the load."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.spark.catalyst import question
from tests.asking import answer, by_spark, difference, frame, indexed, under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT id FROM t WHERE k = {}"


@pytest.fixture
def t(spark: SparkSession, database: str) -> SparkSession:
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS int) AS k, id FROM range(0, 2000, 1, 1)")
    hive_bitmap.build(spark, "t", ["k"])
    return spark


def reasons(spark: SparkSession, queries: list[str]) -> Counter[str]:
    """Why these queries, which are planned at the same time, are left to Spark; "" for one that is not."""

    def reason(query: str) -> str:
        [relation] = hive_bitmap.explain(query, spark).relations
        return relation.reason

    with ThreadPoolExecutor(len(queries)) as pool:
        return Counter(pool.map(reason, queries))


@pytest.mark.contract
def test_a_query_for_which_there_is_no_time_is_sparks_at_once(t: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = question.prepare

    def slow(*args: Any) -> Any:
        time.sleep(0.8)
        return prepare(*args)

    monkeypatch.setattr(question, "prepare", slow)
    with indexed(t, "blocks", strict="false", planning_seconds="30"):
        found = reasons(t, [QUERY.format(number) for number in range(12)])
        assert set(found) == {"", "away"}
        assert 4 <= found[""] < 12
        monkeypatch.undo()
        assert reasons(t, [QUERY.format(0)]) == {"": 1}  # the slots are free again


def test_time_counts_for_less_while_jobs_run(t: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own scan would have to wait for these jobs, too."""
    prepare, cores = question.prepare, t.sparkContext.defaultParallelism

    def slow(*args: Any) -> Any:
        time.sleep(1.5)
        return prepare(*args)

    def sleep(batches: Any) -> Any:
        time.sleep(4)
        yield from batches

    monkeypatch.setattr(question, "prepare", slow)
    with indexed(t, "blocks", strict="false", planning_seconds="1"), ThreadPoolExecutor(4 * cores) as pool:
        t.sql(QUERY.format(1))  # the table is known
        jobs = [pool.submit(t.range(0, 1, 1, 1).mapInArrow(sleep, "id bigint").collect) for _ in range(4 * cores)]
        tracker = t.sparkContext.statusTracker()
        until = time.monotonic() + 60
        while len(tracker.getActiveJobsIds()) < 4 * cores - 1 and time.monotonic() < until:
            time.sleep(0.02)
        assert reasons(t, [QUERY.format(1)]) == {"": 1}
        assert all(job.result() for job in jobs)
        assert reasons(t, [QUERY.format(2)]) == {"late": 1}


def test_what_was_late_under_load_is_tried_again_soon(t: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, wanted = question.prepare, by_spark(t, QUERY.format(3))

    def slow(*args: Any) -> Any:
        time.sleep(1.5)
        return prepare(*args)

    monkeypatch.setattr(question, "prepare", slow)
    with indexed(t, "blocks", strict="false", planning_seconds="0.5"):
        found = reasons(t, [QUERY.format(number) for number in range(4)])
        assert found == {"late": 4}
        monkeypatch.undo()
        until = time.monotonic() + 15
        while time.monotonic() < until and reasons(t, [QUERY.format(3)]) != {"": 1}:
            time.sleep(0.5)
        assert reasons(t, [QUERY.format(3)]) == {"": 1}
        assert not difference(answer(frame(t, QUERY.format(3))), wanted)


def test_what_was_late_is_answered_the_next_time(t: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten counts of one shape, each time asked one after the other by a driver that plans too slowly for them."""
    prepare = question.prepare

    def slow(*args: Any) -> Any:
        time.sleep(0.7)
        return prepare(*args)

    queries = [f"SELECT count(*) FROM t WHERE k = {number}" for number in range(10)]
    wanted = [by_spark(t, query) for query in queries]
    with indexed(t, "index only", strict="false", planning_seconds="0.3"):
        t.sql(queries[0])  # the table is known
        monkeypatch.setattr(question, "prepare", slow)
        assert [reasons(t, [query]) for query in queries] == [{"late": 1}] * 10
        until = time.monotonic() + 60
        while any(reasons(t, [query]) != {"": 1} for query in queries) and time.monotonic() < until:
            time.sleep(0.5)
        found = [frame(t, query) for query in queries]
        assert all("IndexAnswer" in str(one._jdf.queryExecution().executedPlan()) for one in found)
        assert not [one for one, right in zip(map(answer, found), wanted, strict=True) if difference(one, right)]


def test_identical_questions_at_the_same_time_are_asked_once(t: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, calls = question.prepare, Counter[str]()

    def slow(spark: Any, request: Any, *args: Any) -> Any:
        calls[request.predicate or ""] += 1
        time.sleep(1)
        return prepare(spark, request, *args)

    monkeypatch.setattr(question, "prepare", slow)
    counted = "SELECT count(*) FROM t WHERE k = 7"
    for query, strategy in [(QUERY.format(3), "blocks"), (QUERY.format(4), "rows"), (counted, "index only")]:
        wanted = by_spark(t, query)
        with indexed(t, strategy, strict="false", planning_seconds="30"):
            t.sql(query)  # the table is known, so that all ask at the same time
            calls.clear()
            with ThreadPoolExecutor(6) as pool:
                found = list(pool.map(lambda _, query=query: answer(frame(t, query)), range(6)))
        assert not [one for one in found if difference(one, wanted)]
        assert len(calls) == 1
        assert sum(calls.values()) <= 2  # a thread that begins a second later asks again


def test_a_repeated_count_of_partitions_is_looked_up_once(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark lists the files of a partitioned table only when it is asked; the same listing has the same decision."""
    made = "SELECT id, CAST(id % 50 AS int) k, CAST(id % 4 AS int) day FROM range({})"
    spark.sql("CREATE TABLE p (id bigint, k int, day int) USING parquet PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO p {made.format(2000)}")
    hive_bitmap.build(spark, "p", ["k"])
    prepare, calls = question.prepare, Counter[str]()

    def noted(spark: Any, request: Any, *args: Any) -> Any:
        calls[request.predicate or ""] += 1
        return prepare(spark, request, *args)

    monkeypatch.setattr(question, "prepare", noted)
    queries = [f"SELECT count(*) FROM p WHERE k = 7{more}" for more in ("", " AND day > 1", " AND day = 3")]
    with indexed(spark, "index only", auto_refresh="false"):
        for again in range(2):
            for query in queries:
                wanted = by_spark(spark, query)
                for _ in range(2):
                    assert not difference(answer(frame(spark, query)), wanted)
            assert len(calls) == 3 and set(calls.values()) == {1 + again}
            spark.sql(f"INSERT INTO p {made.format(100)}")  # another listing
            hive_bitmap.refresh(spark, "p")


def test_a_question_with_an_expression_is_asked_once(t: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, calls = question.prepare, Counter[str]()

    def slow(spark: Any, request: Any, *args: Any) -> Any:
        calls[request.predicate or ""] += 1
        time.sleep(1)
        return prepare(spark, request, *args)

    monkeypatch.setattr(question, "prepare", slow)
    query = "SELECT id FROM t WHERE k % 10 = 3"
    wanted = by_spark(t, query)
    with indexed(t, "blocks", strict="false", planning_seconds="30"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: answer(frame(t, query)), range(4)))
    assert not [one for one in found if difference(one, wanted)]
    assert sum(calls.values()) <= 2  # a thread that begins a second later asks again


def test_expressions_of_one_text_with_other_time_zones_or_modes_are_others(spark: SparkSession, database: str) -> None:
    """Views keep the time zone and the mode that they were created with."""
    at = "timestamp_seconds(1700000000 + (id % 48) * 3600)"
    spark.sql(f"CREATE TABLE h USING parquet AS SELECT id, {at} AS at, CAST(id % 48 AS string) AS s FROM range(480)")
    hive_bitmap.build(spark, "h", ["at", "s"])
    conditions = {
        "hour(at) = 3": "spark.sql.session.timeZone",
        "try_cast(s AS int) + 2147483600 > 0": "spark.sql.ansi.enabled",
    }
    values = {"spark.sql.session.timeZone": ("UTC", "Asia/Tokyo"), "spark.sql.ansi.enabled": ("false", "true")}
    names = []
    for number, (condition, setting) in enumerate(conditions.items()):
        for value in values[setting]:
            name = f"v{number}_{value[:3].lower()}"
            with under(spark, {setting: value}):
                spark.sql(f"CREATE VIEW {name} AS SELECT * FROM h WHERE {condition}")
            names.append(name)
    for strategy in ("index only", "blocks"):
        for name in [*names, *reversed(names)]:
            query = f"SELECT count(*) FROM {name}" if strategy == "index only" else f"SELECT id FROM {name}"
            with under(spark, {}):
                wanted, error = None, None
                try:
                    wanted = by_spark(spark, query)
                except Exception as e:  # noqa: BLE001 - overflow, in the mode of the view
                    error = e
            with indexed(spark, strategy):
                if error is None:
                    assert wanted is not None and not difference(answer(frame(spark, query)), wanted)
                else:
                    with pytest.raises(type(error)):
                        answer(frame(spark, query))
