"""Scans that are left to Spark again without a question: as long as files, indexes, settings and condition stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from tests.asking import answer, frame, indexed, require_alike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HALF = "SELECT note FROM t WHERE k = 1"
ROWS = "SELECT CAST(id % 2 AS int) AS k, sha2(string(id), 512) AS note, id % 3 AS p FROM range(0, {}, 1, 2)"

pytestmark = pytest.mark.turn(2)


@pytest.fixture(params=["flat", "partitioned"])
def table(spark: SparkSession, database: str, request: pytest.FixtureRequest) -> str:
    """A table that is large enough to be looked up, of which a condition selects half."""
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql(f"CREATE TABLE t USING parquet {by} AS {ROWS.format(250_000)}")
    hive_bitmap.build(spark, "t", ["k"])
    return "t"


def asks(spark: SparkSession, questions: list[Any], query: str = HALF) -> bool:
    """Whether Python is asked about a query, whose answer is Spark's."""
    before = len(questions)
    frame(spark, query)._jdf.queryExecution().optimizedPlan()
    return len(questions) > before


def test_a_condition_that_selects_too_much_is_asked_about_once(
    spark: SparkSession, table: str, questions: list[Any]
) -> None:
    with indexed(spark):
        assert [asks(spark, questions) for _ in range(3)] == [True, False, False]
        assert asks(spark, questions, HALF.replace("= 1", "= 0")), "another condition"
        assert asks(spark, questions, HALF.replace("note", "note, p")), "other columns"
        assert asks(spark, questions, "SELECT count(*) FROM t WHERE k = 1"), "an aggregation"
        assert not asks(spark, questions)
        answer(frame(spark, HALF))
    require_alike(spark, HALF)


@pytest.mark.parametrize(
    ("reason", "query"),
    [
        ("too_large", "SELECT sum(n) FROM (SELECT note, count(*) AS n FROM t GROUP BY note)"),
        ("not_tested", "SELECT max(note) FROM t WHERE p < 5"),
        ("not_counted", "SELECT round(stddev(length(note)), 3) FROM t"),
    ],
)
def test_other_reasons_that_last(
    spark: SparkSession, database: str, questions: list[Any], reason: str, query: str
) -> None:
    spark.sql(f"CREATE TABLE t USING parquet AS {ROWS.format(250_000)}")
    hive_bitmap.build(spark, "t", ["k"] if reason == "not_tested" else ["k", "note"])
    with indexed(spark):
        asked = [asks(spark, questions, query) for _ in range(3)]
        assert asked[1:] == [False, False]
        [relation] = hive_bitmap.explain(frame(spark, query)).relations
        assert relation.reason == reason
    require_alike(spark, query)


@pytest.mark.parametrize("change", ["a file", "the index", "a setting"])
def test_it_is_asked_again_after_a_change(spark: SparkSession, table: str, questions: list[Any], change: str) -> None:
    with indexed(spark):
        assert [asks(spark, questions) for _ in range(2)] == [True, False]
        if change == "a file":
            spark.sql(f"INSERT INTO t {ROWS.format(10)}")
        elif change == "the index":
            hive_bitmap.rebuild(spark, "t", full=True)
        else:
            spark.conf.set("hive_bitmap.answer_bytes", "1m")
        assert asks(spark, questions)
        spark.conf.unset("hive_bitmap.answer_bytes")
    require_alike(spark, HALF)


def test_a_scan_with_files_that_may_be_indexed_soon_is_asked_about_each_time(
    spark: SparkSession, table: str, questions: list[Any]
) -> None:
    spark.sql(f"INSERT INTO t {ROWS.format(10)}")
    with indexed(spark):
        assert [asks(spark, questions) for _ in range(2)] == [True, True]


def test_explain_tells_what_python_says_now(spark: SparkSession, table: str, questions: list[Any]) -> None:
    with indexed(spark):
        assert [asks(spark, questions) for _ in range(2)] == [True, False]
        [relation] = hive_bitmap.explain(frame(spark, HALF)).relations
        assert (relation.reason, relation.action) == ("not_selective", "left alone")


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_table_that_is_too_small_is_asked_about_once(
    spark: SparkSession, database: str, questions: list[Any], partitioned: bool
) -> None:
    by = "PARTITIONED BY (p)" if partitioned else ""
    spark.sql(f"CREATE TABLE t USING parquet {by} AS SELECT id AS k, id % 3 AS p FROM range(0, 200000, 1, 1)")
    hive_bitmap.build(spark, "t", ["k"])
    query = "SELECT k, count(*) FROM t GROUP BY k"
    with indexed(spark):
        assert [asks(spark, questions, query) for _ in range(3)] == [True, False, False]
        [relation] = hive_bitmap.explain(frame(spark, query)).relations
        assert relation.reason == "too_small"
        spark.sql("INSERT INTO t VALUES (7, 1)")
        assert asks(spark, questions, query)
    require_alike(spark, query)


def test_a_join_whose_small_side_is_not_worth_a_job_is_asked_about_once(
    spark: SparkSession, table: str, questions: list[Any]
) -> None:
    spark.sql("CREATE TABLE small USING parquet AS SELECT sha2(string(id), 512) AS note, id AS n FROM range(30)")
    join = "SELECT count(*) FROM t JOIN small ON t.note = small.note WHERE small.n < 9"
    other = "SELECT count(*) FROM t JOIN small ON t.k = small.n WHERE small.n < 9"
    with indexed(spark):
        assert [asks(spark, questions, join) for _ in range(3)] == [True, False, False]
        assert asks(spark, questions, other), "filtered by another column"
    require_alike(spark, join)


def test_a_small_table_is_asked_about_again_for_a_new_index(spark: SparkSession, database: str) -> None:
    """Its rows are read in no time; whether its counts come from an index depends on the indexes."""
    spark.sql(
        "CREATE TABLE t USING parquet AS SELECT id, CAST(id % 50 AS int) k, CAST(id % 7 AS int) v FROM range(8000)"
    )
    hive_bitmap.build(spark, "t", ["k"])
    query = "SELECT count(*) FROM t WHERE v = 3"
    with indexed(spark):
        for _ in range(2):
            assert "IndexAnswer" not in str(frame(spark, query)._jdf.queryExecution().executedPlan())
        hive_bitmap.build(spark, "t", ["v"])
        assert "IndexAnswer" in str(frame(spark, query)._jdf.queryExecution().executedPlan())
    require_alike(spark, query)


@pytest.mark.parametrize("strategy", ["rows", "blocks", "files"])
@pytest.mark.parametrize("stored", ["USING parquet PARTITIONED BY (p)", "USING parquet", "STORED AS TEXTFILE"])
def test_a_table_without_files_may_have_some_when_the_plan_is_executed(
    spark: SparkSession, database: str, stored: str, strategy: str
) -> None:
    spark.sql(f"CREATE TABLE e (id bigint, k int, p int) {stored}")
    hive_bitmap.build(spark, "e", ["k"])
    query = "SELECT id FROM e WHERE k = 77"
    with indexed(spark, strategy):
        planned = frame(spark, query)
        planned._jdf.queryExecution().executedPlan()
        spark.conf.set("hive_bitmap.enabled", "false")
        plain = frame(spark, query)
        plain._jdf.queryExecution().executedPlan()
        spark.conf.set("hive_bitmap.enabled", "true")
        spark.sql("INSERT INTO e VALUES (1L, 77, 1), (2L, 77, 1)")
        assert sorted(planned.collect()) == sorted(plain.collect())
