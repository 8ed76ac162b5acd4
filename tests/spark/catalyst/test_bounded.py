"""What the driver holds for a query is bounded, and so is what is done to plan it: beyond that, it is Spark's own."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.memory_budget import BUDGET
from hive_bitmap.core.planning import settings
from hive_bitmap.spark.catalyst.enabling import Answers
from tests.asking import Answer, answer, by_spark, difference, frame, indexed, require_alike, told, unchecked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = 20_000  # keys: some 2.9 MB of an answer
BY_KEY = "SELECT u, count(*) AS n, min(u) AS m FROM crowd GROUP BY u"
NESTED = f"SELECT max(n), count(*), sum(hash(u)) FROM ({BY_KEY})"
SLOW = "levenshtein(concat(t, repeat(t, 40)), repeat('0123456789abcdef', 40)) < 5"


@pytest.fixture(scope="module")
def crowd(spark: SparkSession) -> Iterator[SparkSession]:
    text = f"concat('key ', lpad(id % {MANY}, 9, '0')) AS t, CAST(id % {MANY} AS bigint) AS u, CAST(id % 5 AS int) AS j"
    spark.sql(f"CREATE TABLE crowd USING parquet AS SELECT id, {text} FROM range(0, {2 * MANY}, 1, 2)")
    hive_bitmap.build(spark, "crowd", ["u", "t", "j"])
    yield spark
    hive_bitmap.drop_table(spark, "crowd")


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The JVM's requests to Python from now on, by kind; "kept" if it only wants a decision that Python has kept."""
    calls: list[str] = []
    answer_it = Answers.apply

    def noted(self: Answers, session: Any, request: Any) -> Any:
        only_kept = request.kind() == "plan" and "only_kept" in json.loads(request.text())
        calls.append("kept" if only_kept else str(request.kind()))
        return answer_it(self, session, request)

    monkeypatch.setattr(Answers, "apply", noted)
    return calls


@pytest.mark.contract
def test_keys_that_fit_are_answered_and_others_are_left_to_spark(crowd: SparkSession) -> None:
    for query in (BY_KEY, NESTED, "SELECT count(DISTINCT t) FROM crowd", "SELECT DISTINCT u FROM crowd WHERE j < 3"):
        require_alike(crowd, query, "index only", answer_bytes="16m")
        require_alike(crowd, query, "index only", answer_bytes="1m")
    assert told(crowd, BY_KEY, "index only", answer_bytes="16m") == [("crowd", "answered")]
    with indexed(crowd, "index only", answer_bytes="1m"):
        [relation] = hive_bitmap.explain(BY_KEY, crowd).relations
    assert (relation.action, relation.reason) == ("left alone", "too_large")
    assert relation.detail.startswith("its keys take some 2 MB in the driver, more than hive_bitmap.answer_bytes")


@pytest.mark.contract
def test_few_groups_of_many_keys_are_answered(crowd: SparkSession) -> None:
    assert told(crowd, "SELECT j, count(*) FROM crowd GROUP BY j", "index only", answer_bytes="1m") == [
        ("crowd", "answered")
    ]
    few = "SELECT u, count(*) FROM crowd WHERE u < 100 GROUP BY u"
    assert told(crowd, few, "index only", answer_bytes="1m") == [("crowd", "answered")]
    require_alike(crowd, few, "index only", answer_bytes="1m")


def test_no_message_of_spark_is_larger_than_it_may_be() -> None:
    small = {"hive_bitmap.answer_bytes": "1g", "spark.rpc.message.maxSize": "4"}
    assert settings.read(small).answer_bytes == 2 << 20
    assert settings.read({"hive_bitmap.answer_bytes": "1 MB"}).answer_bytes == 1 << 20
    assert settings.read({}).answer_bytes == settings.ANSWER_BYTES


def underestimated(monkeypatch: pytest.MonkeyPatch) -> None:
    from hive_bitmap.core.answering import answer_size

    monkeypatch.setattr(answer_size, "_estimate", lambda *args: 0)


def test_counting_stops_at_the_limit_and_is_not_tried_again(
    crowd: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    underestimated(monkeypatch)
    for query in (BY_KEY, NESTED, f"SELECT u, sum(n) OVER (ORDER BY u) FROM ({BY_KEY})", f"{BY_KEY} LIMIT 20000"):
        wanted = by_spark(crowd, query)
        with indexed(crowd, "index only", answer_bytes="1100k"):
            calls = asked(monkeypatch)
            assert not difference(answer(frame(crowd, query)), wanted), query
            assert not difference(answer(frame(crowd, query)), wanted), query
        assert calls == ["plan", "execute", "plan"] if query == BY_KEY else ["plan", "plan"]
    assert told(crowd, BY_KEY, "index only", answer_bytes="1100k") == [("crowd", "left alone")]


def test_functions_leave_many_keys_to_spark(crowd: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    underestimated(monkeypatch)
    for _ in range(2):
        crowd.conf.set("hive_bitmap.answer_bytes", "1200k")
        try:
            found = hive_bitmap.group_counts(crowd, "crowd", "j < 2", ["u"])
        finally:
            crowd.conf.unset("hive_bitmap.answer_bytes")
        assert found.num_rows == MANY * 2 // 5 and set(found["count"].to_pylist()) == {2}


def test_new_files_with_many_keys_are_not_fetched(crowd: SparkSession) -> None:
    crowd.sql("CREATE TABLE grown USING parquet AS SELECT CAST(id % 3 AS bigint) u FROM range(0, 60000, 1, 1)")
    hive_bitmap.build(crowd, "grown", ["u"])
    query = "SELECT max(n), count(*) FROM (SELECT u, count(*) AS n FROM grown GROUP BY u)"
    try:
        with indexed(crowd, "index only", answer_bytes="1m"):
            assert answer(frame(crowd, query)).rows == ["(20000, 3)"]
        crowd.sql("INSERT INTO grown SELECT id FROM range(15000)")
        require_alike(crowd, query, "index only", answer_bytes="16m")
        require_alike(crowd, query, "index only", answer_bytes="1m")
    finally:
        hive_bitmap.drop_table(crowd, "grown")


def test_results_that_are_wider_than_their_keys_are_computed_in_tasks(
    crowd: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hive_bitmap")
    query = "SELECT u, repeat(CAST(u AS string), 200) AS wide, count(*) AS n FROM crowd WHERE u < 5000 GROUP BY u"
    require_alike(crowd, query, "index only", answer_bytes="1m")


def test_a_wrong_limit_is_told(crowd: SparkSession) -> None:
    """SET refuses such a value; set before there was a check, it can be there."""
    wrong = {"spark.hive_bitmap.answer_bytes": "much"}
    with indexed(crowd, "index only", strict="false"), unchecked(crowd, wrong):
        [relation] = hive_bitmap.explain(BY_KEY, crowd).relations
        assert "hive_bitmap.answer_bytes is 'much'; it takes bytes, such as 16777216 or 16m" in relation.detail
        assert len(answer(frame(crowd, BY_KEY)).rows) == MANY


def test_what_is_late_is_cancelled_and_not_tried_again(crowd: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    query = f"SELECT id FROM crowd WHERE j = 3 AND {SLOW}"
    wanted = Answer(by_spark(crowd, "SELECT id FROM crowd WHERE false").columns, [])
    tracker = crowd.sparkContext.statusTracker()
    with indexed(crowd, "blocks", strict="false", planning_seconds="0.5"):
        calls = asked(monkeypatch)
        crowd.sql(f"SELECT count(*) FROM ({query})")  # analysed, not planned
        reasons = [hive_bitmap.explain(query, crowd).relations[0] for _ in range(2)]
        assert [one.reason for one in reasons] == ["late", "late"]
        assert "it is tried again in" in reasons[1].detail and calls == ["plan", "kept"]
        until = time.monotonic() + 20
        while tracker.getActiveJobsIds() and time.monotonic() < until:
            time.sleep(0.05)
        assert not tracker.getActiveJobsIds()
        other = f"SELECT id FROM crowd WHERE j = 4 AND {SLOW.replace('< 5', '< 6')}"
        assert hive_bitmap.explain(other, crowd).relations[0].reason == "late"
        assert calls == ["plan", "kept", "kept"]
        assert not difference(answer(frame(crowd, f"{query} AND id < 100")), wanted)
        crowd.conf.set("hive_bitmap.planning_seconds", "0.6")
        assert hive_bitmap.explain(query, crowd).relations[0].reason == "late"
        assert calls == ["plan", "kept", "kept", "plan", "plan"]


def test_an_answer_whose_listing_was_evicted_is_sparks(crowd: SparkSession) -> None:
    query = "SELECT j, count(*) AS n FROM crowd GROUP BY j"
    wanted = by_spark(crowd, query)
    with indexed(crowd, "index only"):
        planned = frame(crowd, query)
        planned._jdf.queryExecution().executedPlan()
        capacity = BUDGET.capacity
        BUDGET.resize(0)
        BUDGET.resize(capacity)
        assert not difference(answer(planned), wanted)
        assert not difference(answer(frame(crowd, query)), wanted)


def test_caches_are_bounded_together(crowd: SparkSession) -> None:
    for number in range(30):
        with indexed(crowd, "index only", **{"stores.memory": "1"}):
            crowd.sql(f"SELECT u, count(*) FROM crowd WHERE u > {number} AND u < {number + 90} GROUP BY u").collect()
            assert sum(use.bytes for use in hive_bitmap.caches()) <= 1 << 20
    with indexed(crowd, "index only", **{"stores.memory": "64"}):
        crowd.sql("SELECT t, count(*) FROM crowd GROUP BY t").collect()
    kinds = {use.kind for use in hive_bitmap.caches()}
    planned = {"decisions", "listings", "questions", "tables"}
    assert {"checksums", "footers of shards", "manifests", "shards", *planned} <= kinds


def test_computed_groups_and_values_are_bounded_too(crowd: SparkSession) -> None:
    """Few small keys, from which much is computed: 5 MB each of a group or a value."""
    for computed in ("SELECT repeat(t, 350000) x, count(*) n", "SELECT j + 1 x, max(repeat(t, 350000)) n"):
        inner = f"{computed} FROM crowd WHERE u < 40 GROUP BY {'1' if 'j' not in computed else 'j, t'}"
        require_alike(crowd, f"SELECT count(*), max(length(x)), max(length(n)) FROM ({inner})", "index only")


@pytest.mark.parametrize(
    "pattern", ["^(a|aa)+(x?)\\\\2$", pytest.param("(a*)*b", marks=pytest.mark.contract), ".*a.*b.*c.*d", "(a|b){9}"]
)
def test_a_regular_expression_that_may_take_long_is_asked_of_rows_only(crowd: SparkSession, pattern: str) -> None:
    """Spark asks it of the rows that the other conditions leave; keys may be any."""
    query = f"SELECT count(*) FROM crowd WHERE j = 3 AND t RLIKE '{pattern}'"
    require_alike(crowd, query, "index only", "blocks")
    assert ("crowd", "answered") not in told(crowd, query, "index only")
    assert told(crowd, "SELECT count(*) FROM crowd WHERE j = 3 AND t RLIKE '^key 0+1'", "index only") == [
        ("crowd", "answered")
    ]
