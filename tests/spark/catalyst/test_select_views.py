"""Persistent and temporary views in plain `spark.sql`: Spark has put their queries in place when the rule sees them.

More views, and the rows of all kinds of queries over them, are in star_views and corpus/views.sql.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests.asking import (
    FORCED,
    by_index,
    by_spark,
    difference,
    indexed,
    require_alike,
    require_alike_always,
    told,
    under,
    used,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with the database `views`: the indexed table t, plain without an index, and views over them."""
    before = spark.catalog.currentDatabase()
    spark.sql("CREATE DATABASE views")
    spark.catalog.setCurrentDatabase("views")
    spark.sql(
        "CREATE TABLE t USING parquet AS SELECT id, CAST(id % 10 AS INT) AS k, concat('n', id) AS n FROM range(500)"
    )
    spark.sql("CREATE TABLE plain USING parquet AS SELECT * FROM t")
    hive_bitmap.build(spark, "t", ["k"])
    spark.sql("CREATE VIEW v AS SELECT id, k FROM t WHERE k < 8")
    spark.sql("CREATE VIEW over_v (a, b) AS SELECT k, id FROM v WHERE id > 3")
    spark.sql("CREATE VIEW number AS SELECT CAST(substr(n, 2) AS INT) AS i, k FROM t")
    spark.sql("CREATE VIEW over_plain AS SELECT id, k FROM plain WHERE k < 8")
    yield spark
    spark.catalog.setCurrentDatabase(before)
    spark.sql("DROP DATABASE views CASCADE")


def check(spark: SparkSession, text: str, narrowed: int) -> None:
    """The rows and schema are Spark's, with so many scans of t narrowed."""
    assert used(spark, text, "rows") == [("t", "narrowed")] * narrowed
    require_alike(spark, text, "rows")


@pytest.mark.parametrize(
    ("text", "narrowed"),
    [
        ("SELECT * FROM v", 1),
        ("SELECT id FROM views.v WHERE v.k = 3", 1),
        ("SELECT views.v.id FROM views.v", 1),
        pytest.param("SELECT x.b FROM over_v x WHERE a = 3", 1, marks=pytest.mark.contract),
        pytest.param(
            "SELECT v.id FROM v JOIN over_v o ON v.id = o.b WHERE v.k = 2 AND o.a = 2", 2, marks=pytest.mark.contract
        ),
        ("SELECT p FROM v AS x (p, q) WHERE q = 3", 1),
        ("SELECT id FROM over_plain WHERE k = 3", 0),
        ("SELECT v.id FROM v JOIN number n ON v.id = n.i WHERE v.k = 2", 1),
    ],
)
def test_views_are_narrowed(made: SparkSession, text: str, narrowed: int) -> None:
    check(made, text, narrowed)
    require_alike_always(made, text)


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("SELECT count(*) AS c FROM v", 1),
        ("SELECT v.k, count(*) AS c FROM views.v AS v WHERE v.k > 2 GROUP BY k ORDER BY c, k LIMIT 3", 1),
        ("SELECT (SELECT count(*) FROM v WHERE k = 3) AS c, 'x' AS x", 1),
        ("WITH w AS (SELECT * FROM v) SELECT min(k) AS low, max(k) AS high FROM w WHERE k <> 0", 1),
        ("SELECT count(*) FROM over_v WHERE a = 3", 0),  # which asks for a column that has no index
        ("SELECT count(a) FROM (SELECT k AS a FROM v) WHERE a = 3", 1),
        ("SELECT count(n) FROM t WHERE k < 8", 0),
        ("SELECT count(*) FROM over_plain", 0),
    ],
)
def test_counts_over_views_come_from_the_index_alone(made: SparkSession, text: str, answered: int) -> None:
    found = used(made, text, "index only")
    assert [one for one in found if one[1] == "answered"] == [("t", "answered")] * answered
    require_alike(made, text, "index only", ordered="ORDER BY" in text)


def test_explain_tells_the_table(made: SparkSession) -> None:
    with indexed(made, "rows"):
        told = str(hive_bitmap.explain("SELECT b FROM over_v WHERE a = 3"))
    assert "views.t" in told and "narrowed" in told


@pytest.mark.contract
def test_a_temporary_view_is_what_it_reads(made: SparkSession) -> None:
    made.sql("CREATE TEMPORARY VIEW v AS SELECT 1L AS id, 3 AS k, 'x' AS n")
    made.sql("CREATE TEMPORARY VIEW t AS SELECT 7L AS id, 3 AS k, 'y' AS n")
    made.sql("CREATE TEMPORARY VIEW w AS SELECT id FROM views.t WHERE k = 3")
    try:
        check(made, "SELECT id FROM v WHERE k = 3", 0)
        check(made, "SELECT id FROM t WHERE k = 3", 0)
        check(made, "SELECT id FROM views.v WHERE k = 3", 1)  # whose t is the table
        check(made, "SELECT id FROM w WHERE id < 90", 1)
    finally:
        for name in ("v", "t", "w"):
            made.catalog.dropTempView(name)


def test_the_temporary_view_of_a_frame(made: SparkSession) -> None:
    made.table("t").where("k = 4").createOrReplaceTempView("fours")
    try:
        check(made, "SELECT count(DISTINCT n) FROM fours WHERE id > 30", 1)
    finally:
        made.catalog.dropTempView("fours")


def test_a_view_that_was_replaced_is_noticed(made: SparkSession) -> None:
    made.sql("CREATE VIEW turning AS SELECT id, k FROM t WHERE k = 1")
    check(made, "SELECT * FROM turning", 1)
    made.sql("CREATE OR REPLACE VIEW turning AS SELECT id, k FROM t WHERE k = 2")
    check(made, "SELECT * FROM turning", 1)
    made.sql("DROP VIEW turning")
    with indexed(made), pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        made.sql("SELECT * FROM turning")


def test_a_view_that_no_longer_resolves_fails_as_it_does(made: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    made.sql("CREATE TABLE going USING parquet AS SELECT * FROM t")
    hive_bitmap.build(made, "going", ["k"])
    made.sql("CREATE VIEW gone AS SELECT id, n FROM going WHERE k = 1")
    assert used(made, "SELECT * FROM gone", "rows") == [("going", "narrowed")]
    made.sql("DROP TABLE going")
    made.sql("CREATE TABLE going USING parquet AS SELECT id, k FROM t")
    for answer in (by_spark, by_index):
        with pytest.raises(AnalysisException) as raised:
            answer(made, "SELECT * FROM gone")
        assert "hive_bitmap" not in str(raised.value)


def test_a_cached_view_is_read_from_the_cache(made: SparkSession) -> None:
    made.sql("CREATE VIEW kept AS SELECT id FROM t WHERE k = 5")
    check(made, "SELECT id FROM kept", 1)
    made.catalog.cacheTable("kept")
    try:
        check(made, "SELECT id FROM kept", 0)
        check(made, "SELECT id FROM t WHERE k = 6", 1)
    finally:
        made.catalog.uncacheTable("kept")


def test_settings_that_change_what_a_view_means(made: SparkSession) -> None:
    """The view was made in ANSI mode, and keeps it."""
    made.sql("CREATE VIEW cast_in AS SELECT CAST(substr(n, 2) AS INT) AS i, k FROM t")
    made.sql("CREATE VIEW fails AS SELECT id FROM t WHERE k = 3 AND CAST(n AS INT) = 3")
    with under(made, {"spark.sql.ansi.enabled": "false"}):
        check(made, "SELECT i FROM cast_in WHERE k = 4", 1)
        for answer in (by_spark, by_index):
            with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
                answer(made, "SELECT * FROM fails")
        check(made, "SELECT id FROM t WHERE k = 3 AND CAST(n AS INT) = 3", 1)


def test_a_temporary_function_is_not_the_views(made: SparkSession) -> None:
    made.sql("CREATE FUNCTION loud(x STRING) RETURNS STRING RETURN upper(x)")
    made.sql("CREATE VIEW shouting AS SELECT loud(n) AS n, k FROM t WHERE k = 6")
    made.sql("CREATE TEMPORARY FUNCTION loud(x STRING) RETURNS STRING RETURN lower(x)")
    try:
        check(made, "SELECT n FROM shouting WHERE n = 'N6'", 1)
        assert len(by_index(made, "SELECT n FROM shouting WHERE n = 'N6'", "rows").rows) == 1
    finally:
        made.sql("DROP TEMPORARY FUNCTION loud")


def test_under_engine_reads_only_spark_reads_the_tables_of_views(made: SparkSession) -> None:
    """No rows come by another way than Spark's reader, and no answer from the index alone."""
    for text in ("SELECT * FROM v WHERE k = 3", "SELECT count(*) FROM v"):
        assert ("t", "answered") not in told(made, text, engine_reads_only="true")
        wanted = by_spark(made, text)
        for strategy in ("", *FORCED):
            assert not difference(by_index(made, text, strategy, engine_reads_only="true"), wanted)
