"""Aggregations whose answer over keys would not be that over rows: each is Spark's, and what is like it is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.functions import udf

import hive_bitmap
from tests.asking import answer, by_index, by_spark, difference, frame, indexed, require_alike, told, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(3)

ROWS = """
CREATE TABLE t USING parquet AS SELECT
  CAST(id % 7 AS INT) AS k, CAST(id % 3 AS INT) AS j, concat(if(id % 2 = 0, 'a', 'A'), id % 3) AS s,
  if(id % 2 = 0, -0.0D, 0.0D) AS d, if(id % 4 = 0, -0.0D, id % 4) AS d2, 9000000000000000000 AS b,
  if(id % 2 = 0, 9000000000000000000, -9000000000000000000) AS up, id % 1000 AS small,
  CAST(0.0000000001 * (id % 5 + 1) AS DECIMAL(20,10)) AS m, CAST(0.0000001 * (id % 5 + 1) AS DECIMAL(20,7)) AS m7,
  CAST(id % 5 + 0.25 AS DECIMAL(20,6)) AS m6, CAST(id % 5 + 0.25 AS DECIMAL(38,2)) AS wide,
  CAST(if(id % 2 = 0, 9e35, -1.5) AS DECIMAL(38,2)) AS full
FROM range(1000)
"""
COLUMNS = ("k", "j", "s", "d", "d2", "b", "up", "small", "m", "m7", "m6", "wide", "full")
OF_THE_ROWS = [
    # filters that Spark leaves above a projection
    "SELECT count(*) FROM (SELECT k, rand(1) AS r FROM t) WHERE r < -1",
    "SELECT k, count(*) FROM (SELECT k, rand(1) AS r FROM t) WHERE r < -1 GROUP BY k",
    "SELECT count(*) FROM (SELECT *, monotonically_increasing_id() AS i FROM t) WHERE i < 10",
    "SELECT 1 FROM (SELECT k, rand(1) AS r FROM t) WHERE r < -1 LIMIT 1",
    "SELECT EXISTS (SELECT 1 FROM (SELECT k, rand(1) AS r FROM t) WHERE r < -1)",
    "SELECT DISTINCT k FROM (SELECT k, uuid() AS u FROM t) WHERE u = 'x'",
    # groups that are not in the result
    "SELECT count(*) FROM t GROUP BY plus(k)",
    "SELECT max(j) FROM t GROUP BY plus(k)",
    "SELECT count(*) FROM t GROUP BY rand(1) > 2",
    "SELECT count(*) FROM t GROUP BY k > (SELECT max(id) FROM range(3))",
    "SELECT count(*) FROM t GROUP BY k, j IN (SELECT k FROM t WHERE k < 2)",
    "SELECT k, j IN (SELECT k FROM t WHERE k < 2) AS x, count(*) FROM t GROUP BY k, j IN (SELECT k FROM t WHERE k < 2)",
    "SELECT count(*) FROM t GROUP BY k, EXISTS (SELECT 1 FROM range(5) WHERE id > 8)",
    "SELECT count(*) FROM (SELECT count(*) FROM t GROUP BY uuid())",
    "SELECT count(*) FROM t GROUP BY monotonically_increasing_id() < 10",
    "SELECT count(plus(k)), sum(plus(k)), min(plus(k)) FROM t",
    "SELECT count(*) FILTER (WHERE plus(k) > 3) FROM t",
    "SELECT k, count(*) + rand(1) > -1 FROM t GROUP BY k",
    # what tells 0.0 from -0.0
    "SELECT count(*) FROM t WHERE CAST(d AS STRING) = '-0.0'",
    "SELECT count(*) FROM t WHERE concat('', d2) LIKE '-%'",
    "SELECT CAST(d AS STRING) AS x, count(*) FROM t GROUP BY 1",
    "SELECT count(DISTINCT CAST(d2 AS STRING)) FROM t",
    "SELECT min(CAST(d2 AS STRING)) FROM t",
    "SELECT count(*) FILTER (WHERE CAST(d AS STRING) = '-0.0') FROM t",
    "SELECT -d, count(*) FROM t GROUP BY -d",
    "SELECT count(*) FROM t WHERE d2 IN (-0.0D, 1D, 4D, 5D, 6D, 7D, 8D, 9D, 10D, 11D, 12D, 13D)",
    "SELECT CASE WHEN k > 3 THEN 0.0D ELSE -0.0D END AS z, count(*) FROM t GROUP BY 1",
    "SELECT count(DISTINCT k / -2) FROM t",
    "SELECT max(d2), min(d2), sum(d2), avg(d2) FROM t",
    # collations
    "SELECT count(*) FROM t GROUP BY s COLLATE UTF8_LCASE",
    "SELECT lower(s COLLATE UTF8_LCASE) AS x, count(*) FROM t GROUP BY 1",
    "SELECT count(DISTINCT s COLLATE UTF8_LCASE), count(DISTINCT s COLLATE UNICODE_CI) FROM t",
    "SELECT max(s COLLATE UTF8_LCASE) = 'a2' FROM t",
    "SELECT count(*) FROM (SELECT DISTINCT s COLLATE UTF8_LCASE FROM t)",
    # sums that would lose digits
    "SELECT sum(m), avg(m), try_sum(m) FROM t",
    "SELECT k, sum(m) FROM t GROUP BY k",
    "SELECT sum(m7), avg(m7) FROM t",
    "SELECT sum(k / 2), avg(k / 2) FROM t",
    # other functions
    "SELECT k, first(j) IN (0, 1, 2) FROM t GROUP BY k",
    "SELECT stddev(k), median(k), mode(j) FROM t",
    "SELECT collect_set(j) IS NULL, bool_or(j > 1), any_value(k) > 9 FROM t",
    "SELECT approx_count_distinct(k) FROM t",
    "SELECT k, j, count(*) FROM t GROUP BY CUBE (k, j)",
]  # fmt: skip
ANSWERED = [
    "SELECT count(*), count(d), count(DISTINCT d), count(DISTINCT d2) FROM t",
    "SELECT d, count(*) FROM t GROUP BY d",
    "SELECT d2, min(k), count(*) FROM t WHERE d2 >= -0.0 AND d2 <> 2 GROUP BY d2",
    "SELECT d2 + 1, CAST(d2 AS STRING), count(*) FROM t GROUP BY d2",
    "SELECT count(*) FROM t WHERE d2 IN (-0.0D, 3D) OR d2 > double('NaN') OR d2 IS NULL",
    "SELECT sum(m6), avg(m6), try_sum(m6), try_avg(m6) FROM t",
    "SELECT k, sum(wide), avg(wide), sum(DISTINCT wide) FROM t GROUP BY k",
    "SELECT sum(small), try_sum(small), avg(small), avg(small + 1), sum(small * 2), sum(DISTINCT small) FROM t",
    "SELECT sum(k) FILTER (WHERE k > 3), avg(k) FILTER (WHERE k > 99), sum(k) FILTER (WHERE k > 99) FROM t",
    "SELECT j, try_avg(k), try_sum(k), count(k, j) FROM t GROUP BY j",
    "SELECT sum(wide), avg(wide), sum(small), avg(small), count(wide) FROM t WHERE wide < 0",
]
OVERFLOWING = [
    "SELECT sum(b) FROM t",
    "SELECT try_sum(b) FROM t",
    "SELECT avg(b), try_avg(b) FROM t",
    "SELECT sum(up) FROM t",
    "SELECT try_sum(up) FROM t",
    "SELECT sum(DISTINCT up), avg(DISTINCT up) FROM t",
    "SELECT k, try_sum(b), avg(b + 1) FROM t GROUP BY k",
    "SELECT sum(full) FROM t",
    "SELECT try_sum(full), try_avg(full) FROM t",
    "SELECT avg(full) FROM t",
    "SELECT sum(small * 100000000000000000) FROM t",
    "SELECT sum(b) FILTER (WHERE b < 0) FROM t",
]


@pytest.fixture(scope="module")
def t(spark: SparkSession, shared_database: str) -> Iterator[SparkSession]:
    spark.sql(ROWS)
    hive_bitmap.build(spark, "t", list(COLUMNS))
    spark.udf.register("plus", udf(lambda value: value + 1, "int"))
    with under(spark, {"spark.sql.shuffle.partitions": "1"}):
        yield spark


@pytest.mark.parametrize(
    "query",
    contract(
        OF_THE_ROWS,
        "SELECT count(*) FROM (SELECT k, rand(1) AS r FROM t) WHERE r < -1",
        "SELECT count(*) FROM t GROUP BY plus(k)",
        "SELECT count(*) FROM t GROUP BY k, j IN (SELECT k FROM t WHERE k < 2)",
        "SELECT count(*) FROM t GROUP BY monotonically_increasing_id() < 10",
        "SELECT count(*) FROM t WHERE CAST(d AS STRING) = '-0.0'",
        "SELECT count(*) FROM t GROUP BY s COLLATE UTF8_LCASE",
        "SELECT sum(m), avg(m), try_sum(m) FROM t",
        "SELECT k, j, count(*) FROM t GROUP BY CUBE (k, j)",
    ),
)
def test_only_the_rows_answer(t: SparkSession, query: str) -> None:
    require_alike(t, query, "", "index only", "blocks")
    assert ("t", "answered") not in told(t, query, "index only")


@pytest.mark.parametrize(
    "query",
    contract(
        ANSWERED,
        "SELECT d, count(*) FROM t GROUP BY d",
        "SELECT k, sum(wide), avg(wide), sum(DISTINCT wide) FROM t GROUP BY k",
        "SELECT sum(k) FILTER (WHERE k > 3), avg(k) FILTER (WHERE k > 99), sum(k) FILTER (WHERE k > 99) FROM t",
    ),
)
def test_the_index_answers(t: SparkSession, query: str) -> None:
    assert told(t, query, "index only") == [("t", "answered")]
    require_alike(t, query, "index only")


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("query", contract(OVERFLOWING, "SELECT try_sum(b) FROM t", "SELECT sum(full) FROM t"))
def test_a_sum_that_may_overflow_is_sparks(t: SparkSession, query: str, ansi: str) -> None:
    """An error, NULL or a number that wrapped, by the mode of the function and the order of the rows."""
    with under(t, {"spark.sql.ansi.enabled": ansi}):
        assert told(t, query, "index only") == [("t", "answered")]
        by_itself, with_the_index = outcome(t, query, "full scan"), outcome(t, query, "index only")
    assert with_the_index == by_itself


def outcome(spark: SparkSession, query: str, strategy: str) -> object:
    """The rows of a query, or the condition of its error."""
    from pyspark.errors import ArithmeticException

    with indexed(spark, strategy, strict="false"):
        try:
            return answer(frame(spark, query))
        except ArithmeticException as e:
            return e.getCondition()


@pytest.mark.contract
def test_a_view_keeps_the_mode_that_it_was_made_with(t: SparkSession) -> None:
    with under(t, {"spark.sql.ansi.enabled": "false"}):
        t.sql("CREATE OR REPLACE VIEW wrapping AS SELECT sum(b) AS s, sum(small) AS n, avg(small) AS a FROM t")
    with under(t, {"spark.sql.ansi.enabled": "true"}):
        require_alike(t, "SELECT * FROM wrapping", "", "index only")
        t.sql("CREATE OR REPLACE VIEW failing AS SELECT sum(small) AS s, try_sum(b) AS b FROM t")
    with under(t, {"spark.sql.ansi.enabled": "false"}):
        require_alike(t, "SELECT * FROM failing", "", "index only")


CORRELATED = (
    "SELECT j, (SELECT count(*) FROM t WHERE t.k = o.j {w}) AS n FROM o",
    "SELECT j, (SELECT count(*) FROM t WHERE t.k = o.j {w} GROUP BY k) AS n FROM o",
    "SELECT j, (SELECT count(*) FROM t WHERE t.k = o.j {w} GROUP BY 'constant') AS n FROM o",
    "SELECT j, (SELECT coalesce(sum(small), -1) FROM t WHERE t.k = o.j {w}) AS n FROM o",
    "SELECT j FROM o WHERE (SELECT count(*) FROM t WHERE t.k = o.j {w}) = 0",
    "SELECT j, s.n FROM o, LATERAL (SELECT count(*) AS n FROM t WHERE t.k = o.j {w}) s",
    "SELECT j FROM o WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = o.j {w})",
    "SELECT j FROM o WHERE j NOT IN (SELECT k FROM t WHERE t.small > o.j {w})",
)
SUBQUERY = "spark.sql.optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled"


@pytest.mark.parametrize("legacy", ["false", "true"])
@pytest.mark.parametrize("condition", ["", "AND s = 'a1'", "AND s = 'none'", "AND k = 3 AND k = 4"])
def test_correlated_subqueries_over_no_rows(t: SparkSession, condition: str, legacy: str) -> None:
    """Spark makes them joins, by the aggregation that it finds in them: COUNT of no rows is 0, not NULL."""
    t.sql("CREATE OR REPLACE TEMPORARY VIEW o AS SELECT EXPLODE(array(1, 2, 40, NULL)) AS j")
    try:
        with under(t, {SUBQUERY: legacy}):
            for query in CORRELATED:
                require_alike(t, query.format(w=condition), "", "index only", "rows", "blocks")
    finally:
        t.catalog.dropTempView("o")


@pytest.mark.parametrize("given", ["FF", "E2", "EFBF", "E282AC", "EFBFBD", "", "76FF"])
def test_texts_of_any_bytes(spark: SparkSession, database: str, given: str) -> None:
    """A literal that is no UTF-8 is not the text that Java makes of it, in which each such byte is U+FFFD."""
    texts = r"array('\uFFFDx', '\uFFFD', '\u20ACuro', 'v1', 'v\uFFFD', NULL)"
    spark.sql(f"CREATE TABLE t USING parquet AS SELECT element_at({texts}, int(id % 6) + 1) AS s, id FROM range(600)")
    hive_bitmap.build(spark, "t", ["s"])
    tests = ("startswith(s, {0})", "contains(s, {0})", "endswith(s, {0})", "s = {0}", "s IN ({0}, 'v1')", "s > {0}")
    for test in tests:
        condition = test.format(f"CAST(X'{given}' AS STRING)")
        for query in (f"SELECT count(*) FROM t WHERE {condition}", f"SELECT id FROM t WHERE NOT {condition}"):
            require_alike(spark, query, "", "index only", "rows", "blocks")


def test_char_types_that_are_kept_as_such(t: SparkSession) -> None:
    t.sql("CREATE TABLE c (id INT, v VARCHAR(10), ch CHAR(4)) USING parquet")
    t.sql("INSERT INTO c SELECT id, concat('v', id % 3), concat('c', id % 2) FROM range(100)")
    hive_bitmap.build(t, "c", ["v", "ch"])
    queries = (
        "SELECT v, count(*) FROM c GROUP BY v",
        "SELECT count(DISTINCT v), min(v), max(ch) FROM c",
        "SELECT ch, count(*), count(ch) FROM c GROUP BY ch",
        "SELECT count(*) FROM c WHERE v = 'v1' AND ch = 'c1'",
        "SELECT id FROM c WHERE v > 'v1' AND ch <> 'c1'",
        "SELECT count(*) FROM c WHERE upper(v) = 'V1'",
    )
    for query in queries[:3]:
        assert told(t, query, "index only") == [("c", "answered")], query
    for query in queries:
        require_alike(t, query, "", "index only", "blocks")
    # the other one last: Spark keeps the relation with the types that it had under the setting
    for setting in ("spark.sql.legacy.charVarcharAsString", "spark.sql.preserveCharVarcharTypeInfo"):
        with under(t, {setting: "true"}):
            for query in queries:
                require_alike(t, query, "", "index only", "blocks", "rows")
            found = hive_bitmap.scan(t, "c", "v = 'v1' AND ch = 'c1'")
            assert sorted(found.collect()) == sorted(t.table("c").where("v = 'v1' AND ch = 'c1'").collect())


def test_groups_of_float_partitions(t: SparkSession) -> None:
    t.sql("CREATE TABLE p (k INT, d DOUBLE) USING parquet PARTITIONED BY (d)")
    for value in ("-0.0D", "0.0D", "1.5D"):
        t.sql(f"INSERT INTO p SELECT CAST(id % 5 AS INT), {value} FROM range(30)")
    hive_bitmap.build(t, "p", ["k"])
    for query in (
        "SELECT d, count(*) FROM p GROUP BY d",
        "SELECT count(DISTINCT d), count(d) FROM p",
        "SELECT d, count(*), min(k) FROM p WHERE k > 2 GROUP BY d",
        "SELECT count(*) FROM p WHERE d = 0 AND k = 1",
        "SELECT count(*) FROM p WHERE CAST(d AS STRING) = '-0.0'",
        "SELECT k FROM p WHERE CAST(d AS STRING) = '-0.0' AND k = 1",
    ):
        require_alike(t, query, "", "index only", "blocks")


@pytest.mark.contract
def test_a_runtime_filter_does_not_change_what_numbers_the_rows(t: SparkSession) -> None:
    t.sql("CREATE TABLE few USING parquet AS SELECT CAST(id AS INT) AS k, concat('n', id) AS name FROM range(7)")
    query = (
        "SELECT f.i FROM (SELECT k, monotonically_increasing_id() AS i FROM t) f JOIN few ON f.k = few.k "
        "WHERE few.name = 'n3'"
    )
    assert not difference(by_index(t, query, "blocks"), by_spark(t, query))
