"""Queries over tables with odd columns, in which a rule that goes by names alone would lose rows or errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidStatement
from tests.asking import indexed, require_alike, require_alike_always

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(3)

ROWS = "SELECT CAST(id % 7 AS INT) AS k, CAST(id % 4 AS INT) AS j, {id} AS id, CAST(id % 11 AS INT) AS x"
STRUCT = "named_struct('k', CAST(id % 3 AS INT), 'v', 'a') AS s"


@pytest.fixture(scope="module")
def odd(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose current database holds three indexed tables; `fact` has a struct with a field `k`."""
    name, before = f"odd_{uuid4().hex[:8]}", spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    for table, rows, more in (("fact", 160, f", {STRUCT}"), ("one", 40, ""), ("two", 30, "")):
        spark.sql(f"CREATE TABLE {table} STORED AS PARQUET AS {ROWS.format(id='id')}{more} FROM range({rows})")
        hive_bitmap.build(spark, table, ["k", "j", "x", "id"])
    spark.sql("CREATE TABLE words STORED AS PARQUET AS SELECT x, k AS all FROM fact")
    hive_bitmap.build(spark, "words", ["x", "all"])
    spark.sql("CREATE VIEW fields AS SELECT s.k, x FROM fact")
    yield spark
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM (SELECT s.k FROM fact) z WHERE k = 2",
        "SELECT k, count(*) FROM (SELECT fact.s.k FROM fact) z GROUP BY k",
        "WITH c AS (SELECT s.k FROM fact WHERE j = 1) SELECT k, count(*) FROM c GROUP BY k",
        "SELECT DISTINCT k FROM (SELECT s.k FROM fact WHERE j = 1) z",
        "SELECT count(*) FROM fields WHERE k = 2",
        "SELECT count(*) FROM (SELECT q.k FROM (SELECT s AS q, k FROM fact) z) y WHERE k = 2",
        "SELECT a.x, c.id FROM two a JOIN fact b ON a.id = b.id JOIN one c USING (k) WHERE c.j = 1",
        "SELECT b.x FROM two a, fact b JOIN one c USING (k) WHERE c.j = 1 AND a.id = b.id",
        "SELECT b.x FROM two a JOIN fact b USING (id) JOIN one c USING (k) WHERE c.j = 1",
        "SELECT a.id, b.x FROM two a JOIN fact b ON a.id = b.id + 1 SEMI JOIN one c USING (k) WHERE b.j = 2",
        "SELECT x, k FROM fact WHERE j = 1 | EXTEND 1 = 1 AND k = 5",
        "SELECT x, k FROM fact WHERE j = 1 |> EXTEND 1 = 1 AND k = 5",
        "SELECT x, k FROM fact WHERE j = 1 | LEFT JOIN (SELECT id AS n FROM one) o ON n = 2 AND x = 5",
        "SELECT x FROM fact WHERE k | 2 = 3 AND (j | x) = 3",
        "SELECT 1 AS hive_bitmap_weight, count(k + 1) AS n FROM fact GROUP BY hive_bitmap_weight",
        "SELECT o.x FROM (SELECT 5 AS `from`, 1 AS x) o WHERE EXISTS (SELECT all FROM words WHERE x = 2)",
        "SELECT (SELECT all FROM words WHERE x = 1) AS y FROM (SELECT 5 AS `from`, 1 AS x) q",
        "SELECT ALL all FROM words WHERE all = 1",
        "SELECT all, x FROM words WHERE all = 1",
        "SELECT EXISTS (SELECT 1 / 0 FROM fact WHERE k = 1) AS e",
        "SELECT EXISTS (SELECT 10 / k FROM fact WHERE k = 0) AS e, EXISTS (SELECT k FROM fact WHERE k = 9) AS f",
        "SELECT EXISTS (SELECT max(k) + 2147483647 FROM fact) AS e",
    ],
)
def test_answers_are_sparks(odd: SparkSession, text: str) -> None:
    require_alike_always(odd, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT all FROM words WHERE x = 2",
        "SELECT count(*) FROM (SELECT all FROM words) z WHERE all = 1",
        "SELECT count(*) FROM (SELECT nope, k FROM fact) z WHERE k = 1",
        "SELECT count(*) FROM (SELECT y.k FROM fact) z",
        "SELECT count(*) FROM (SELECT fact.k.z, j FROM fact) y",
        "SELECT count(*) FROM (SELECT z.* FROM fact) y",
        "SELECT count(*) FROM (SELECT k.* FROM fact) y",
        "SELECT count(*) FROM (SELECT *, nope FROM fact) y",
        "SELECT count(*) FROM (SELECT k FROM fact ORDER BY nope) y",
        "SELECT count(*) FROM (SELECT k FROM fact ORDER BY 99) y",
        "SELECT k, (SELECT count(*) FROM (SELECT nope FROM fact) y) FROM one",
    ],
)
def test_errors_are_sparks(odd: SparkSession, text: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as wanted:
        odd.sql(text)
    with indexed(odd, "rows"), pytest.raises(AnalysisException) as found:
        hive_bitmap.sql(odd, text).collect()
    assert found.value.getCondition() == wanted.value.getCondition()


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE one",
        "INSERT INTO one SELECT * FROM two",
        "WITH c AS (SELECT /*+ COALESCE(1) */ * FROM two) INSERT INTO one SELECT * FROM c",
        "WITH c AS (SELECT * FROM two) INSERT INTO one SELECT * FROM c",
        "FROM two INSERT INTO one SELECT *",
        "CREATE TABLE three AS SELECT * FROM two",
        "EXECUTE IMMEDIATE 'DROP TABLE one'",
        "",
    ],
)
def test_what_explain_analyze_runs_are_queries(odd: SparkSession, text: str) -> None:
    with pytest.raises(InvalidStatement, match="only a query"):
        hive_bitmap.sql(odd, f"EXPLAIN ANALYZE {text}")
    assert odd.table("one").count() == 40 and not odd.catalog.tableExists("three")


@pytest.mark.parametrize("text", ["TABLE one", "VALUES (1)", "(SELECT k FROM one)", "FROM one SELECT k"])
def test_what_explain_analyze_takes(odd: SparkSession, text: str) -> None:
    assert " rows" in hive_bitmap.sql(odd, f"EXPLAIN ANALYZE {text}").first()[0]


def test_the_field_of_a_variant_is_no_parameter(odd: SparkSession) -> None:
    text = """SELECT x5 FROM (SELECT parse_json(concat('{"p":', j, '}')) AS y, x AS y5, k AS x5 FROM fact) z
    WHERE y:q IS NULL AND x5 > :q"""
    require_alike(odd, text, "rows", args={"q": 5})
