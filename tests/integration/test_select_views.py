"""Persistent views through `hive_bitmap.sql`: when they are looked into, and when they must not be.

The oracle is `spark.sql` of the same text; more views, and the rows of all kinds of queries over them, are in
star_views and tests/sql/select/views.sql.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.index import metastore_jvm
from hive_bitmap.index.recent import Recent
from hive_bitmap.query.rewrite import tables
from hive_bitmap.query.rewrite.rewriting import rewrite

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
    spark.conf.set("hive_bitmap.strategy", "rows")
    yield spark
    spark.conf.unset("hive_bitmap.strategy")
    spark.catalog.setCurrentDatabase(before)
    spark.sql("DROP DATABASE views CASCADE")


def check(spark: SparkSession, text: str, views: list[str]) -> None:
    """The rows and schema are Spark's, with one scan narrowed through each of these views."""
    assert [choice.view for choice in rewrite(spark, text).replaced] == views
    wanted, found = spark.sql(text), hive_bitmap.sql(spark, text)
    assert found.schema == wanted.schema
    assert Counter(map(repr, found.collect())) == Counter(map(repr, wanted.collect()))


def test_views_are_narrowed(made: SparkSession) -> None:
    check(made, "SELECT * FROM v", ["v"])
    check(made, "SELECT id FROM views.v WHERE v.k = 3", ["views.v"])
    check(made, "SELECT x.b FROM over_v x WHERE a = 3", ["over_v"])
    check(made, "SELECT v.id FROM v JOIN over_v o ON v.id = o.b WHERE v.k = 2 AND o.a = 2", ["v", "over_v"])
    check(made, "SELECT views.v.id FROM views.v", [])  # what takes its place has no database
    check(made, "SELECT p FROM v AS x (p, q) WHERE q = 3", [])
    check(made, "SELECT id FROM over_plain WHERE k = 3", [])


def test_a_name_that_changes_nothing_stays(made: SparkSession) -> None:
    text = rewrite(made, "SELECT v.id FROM v JOIN number n ON v.id = n.i WHERE v.k = 2").template
    assert "number n ON" in text and "hive_bitmap_view" in text


def test_counts_over_views_come_from_the_index_alone(made: SparkSession) -> None:
    made.conf.set("hive_bitmap.strategy", "index only")
    try:
        for text, view in (
            ("SELECT count(*) AS c FROM v", "v"),
            ("SELECT v.k, count(*) AS c FROM views.v AS v WHERE v.k > 2 GROUP BY k ORDER BY c, k LIMIT 3", "views.v"),
            ("SELECT (SELECT count(*) FROM v WHERE k = 3) AS c, 'x' AS x", "v"),
            ("WITH w AS (SELECT * FROM v) SELECT min(k) AS low, max(k) AS high FROM w WHERE k <> 0", "v"),
        ):
            check(made, text, [view])
            assert [choice.plan.strategy for choice in rewrite(made, text).replaced] == ["index only"], text
        check(made, "SELECT count(*) FROM over_v WHERE a = 3", [])  # it has other names, and a condition on another key
        check(made, "SELECT count(id) FROM v", [])  # of which there is no index
        check(made, "SELECT count(*) FROM over_plain", [])
    finally:
        made.conf.set("hive_bitmap.strategy", "rows")


def test_explain_tells_the_view(made: SparkSession) -> None:
    [row] = hive_bitmap.sql(made, "EXPLAIN SELECT b FROM over_v WHERE a = 3").collect()
    assert "the scan is narrowed, in the query of the view over_v" in row.plan and "MapInArrow" in row.plan


def test_a_temporary_view_hides_a_view_and_is_not_looked_into(made: SparkSession) -> None:
    made.sql("CREATE TEMPORARY VIEW v AS SELECT 1L AS id, 3 AS k, 'x' AS n")
    made.sql("CREATE TEMPORARY VIEW t AS SELECT 7L AS id, 3 AS k, 'y' AS n")
    try:
        check(made, "SELECT id FROM v WHERE k = 3", [])
        check(made, "SELECT id FROM views.v WHERE k = 3", ["views.v"])  # whose t is the table
    finally:
        made.catalog.dropTempView("v")
        made.catalog.dropTempView("t")


def test_a_view_that_was_replaced_is_noticed(made: SparkSession) -> None:
    made.sql("CREATE VIEW turning AS SELECT id, k FROM t WHERE k = 1")
    check(made, "SELECT * FROM turning", ["turning"])
    made.sql("CREATE OR REPLACE VIEW turning AS SELECT id, k FROM t WHERE k = 2")
    check(made, "SELECT * FROM turning", ["turning"])  # what was remembered is not the same any more
    made.sql("DROP VIEW turning")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        hive_bitmap.sql(made, "SELECT * FROM turning")


def test_a_view_that_no_longer_resolves_fails_as_it_does(made: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    made.sql("CREATE TABLE going USING parquet AS SELECT * FROM t")
    hive_bitmap.build(made, "going", ["k"])
    made.sql("CREATE VIEW gone AS SELECT id, n FROM going WHERE k = 1")
    check(made, "SELECT * FROM gone", ["gone"])
    made.sql("DROP TABLE going")
    made.sql("CREATE TABLE going USING parquet AS SELECT id, k FROM t")
    for answer in (made.sql, lambda text: hive_bitmap.sql(made, text)):
        with pytest.raises(AnalysisException) as raised:
            answer("SELECT * FROM gone").collect()
        assert "hive_bitmap" not in str(raised.value)


def test_a_cached_view_is_read_from_the_cache(made: SparkSession) -> None:
    made.sql("CREATE VIEW kept AS SELECT id FROM t WHERE k = 5")
    made.catalog.cacheTable("kept")
    try:
        check(made, "SELECT id FROM kept", [])
    finally:
        made.catalog.uncacheTable("kept")


def test_settings_that_change_what_a_view_means(made: SparkSession) -> None:
    """The view was made in ANSI mode; a condition on a number of the view means the same without."""
    made.sql("CREATE VIEW narrow AS SELECT id, k FROM t WHERE k <> 3")
    made.sql("CREATE VIEW cast_in AS SELECT CAST(substr(n, 2) AS INT) AS i, k FROM t")
    before = str(made.conf.get("spark.sql.ansi.enabled"))
    made.conf.set("spark.sql.ansi.enabled", "false")
    try:
        check(made, "SELECT id FROM narrow WHERE k = 4", ["narrow"])
        check(made, "SELECT i FROM cast_in WHERE k = 4", [])
    finally:
        made.conf.set("spark.sql.ansi.enabled", before)
    check(made, "SELECT i FROM number WHERE k = 4", ["number"])


def test_a_temporary_function_is_not_the_views(made: SparkSession) -> None:
    made.sql("CREATE FUNCTION loud(x STRING) RETURNS STRING RETURN upper(x)")
    made.sql("CREATE VIEW shouting AS SELECT loud(n) AS n, k FROM t WHERE k = 6")
    made.sql("CREATE TEMPORARY FUNCTION loud(x STRING) RETURNS STRING RETURN lower(x)")
    try:
        check(made, "SELECT n FROM shouting", [])
        assert hive_bitmap.sql(made, "SELECT n FROM shouting WHERE n = 'N6'").count() == 1
    finally:
        made.sql("DROP TEMPORARY FUNCTION loud")


def test_engine_reads_only_leaves_views_alone(made: SparkSession) -> None:
    made.conf.set("hive_bitmap.engine_reads_only", "true")
    try:
        assert rewrite(made, "SELECT * FROM v WHERE k = 3", thorough=True).choices == ()
    finally:
        made.conf.unset("hive_bitmap.engine_reads_only")


def test_the_catalog_is_asked_about_a_name_once(made: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a view that no index helps, and of tables without an index, for a while not at all."""
    asked: list[str] = []
    describe = metastore_jvm.describe

    def counting(spark: SparkSession, database: str, names: list[str], qualified: bool) -> object:
        asked.extend(names)
        return describe(spark, database, names, qualified)

    monkeypatch.setattr(metastore_jvm, "describe", counting)
    monkeypatch.setattr(tables, "_known", Recent())  # a test before this one had a temporary view of the name v
    union = "SELECT id FROM (SELECT id, k FROM plain UNION ALL SELECT id, k FROM over_plain) u WHERE k = 3"
    for text in ("SELECT id FROM over_plain WHERE k = 3", "SELECT id FROM plain", union):
        rewrite(made, text)
        asked.clear()
        assert not rewrite(made, text).frames
        assert asked == []
    rewrite(made, "SELECT id FROM v WHERE k = 3")
    asked.clear()
    assert rewrite(made, "SELECT id FROM v WHERE k = 3").frames
    assert asked == ["t"]
