"""Conditions that are not in the text of a query, but in Spark's plan: derived, pushed down, folded or inferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.asking import require_alike, require_alike_always, used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(3)

NARROWED = {
    "an OR of ANDs over two tables": (
        "SELECT a.id, b.id FROM fact a JOIN orders b ON a.id = b.id + 1 "
        "WHERE (a.k = 1 AND b.j = 2) OR (a.k = 3 AND b.j = 4)",
        ["fact", "orders"],
    ),
    "an OR of ANDs behind a comma": (
        "SELECT a.id FROM fact a, fact b WHERE a.id = b.id AND ((a.k = 1 AND b.g < 3) OR (a.k = 2 AND b.g > 29))",
        ["fact", "fact"],
    ),
    "a CTE used twice, once without a condition": (
        "WITH w AS (SELECT * FROM fact) SELECT a.id, b.note FROM w a JOIN w b ON a.id = b.id + 1 WHERE a.k = 1",
        ["fact"],
    ),
    "a CTE used twice with two conditions": (
        "WITH w AS (SELECT * FROM fact) SELECT id FROM w WHERE k = 1 UNION ALL SELECT id FROM w WHERE s = 's2'",
        ["fact", "fact"],
    ),
    "an alias that is the CTE's name": (
        "WITH k AS (SELECT * FROM fact) SELECT k FROM (SELECT k.k AS k, k.id FROM k) k WHERE k.k = 3",
        ["fact"],
    ),
    "inferred from the other side": ("SELECT f.id FROM fact f JOIN orders d ON f.k = d.k WHERE d.k = 3 AND d.g = 1",
                                     ["fact", "orders"]),
    "inferred through three tables": (
        "SELECT a.id FROM fact a JOIN orders b ON a.k = b.k JOIN dim c ON b.k = c.k "
        "WHERE c.k = 3 AND b.g = 4 AND a.g = 4",
        ["dim", "fact", "orders"],
    ),
    "through an outer join that is none": (
        "SELECT f.id FROM fact f LEFT JOIN orders d ON f.id = d.id WHERE d.k = 3", ["orders"],
    ),
    "through an expression": ("SELECT * FROM (SELECT k + 1 AS z, s FROM fact) WHERE z = 9", ["fact"]),
    "through two of them": (
        "SELECT y FROM (SELECT z * 2 AS y FROM (SELECT k + 1 AS z FROM fact)) WHERE y = 8",
        ["fact"],
    ),
    "folded": ("SELECT id FROM fact WHERE k = date_part('DAY', DATE'2020-01-03')", ["fact"]),
    "folded away": ("SELECT id FROM fact WHERE k = 3 AND (1 = 1 OR s = 'x')", ["fact"]),
    "negated twice": ("SELECT id FROM fact WHERE NOT (k <> 4)", ["fact"]),
    "by De Morgan": ("SELECT id FROM fact WHERE NOT (k <> 4 OR s <> 's1' OR s IS NULL)", ["fact"]),
    "around a window": (
        "SELECT * FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM fact) "
        "WHERE k = 3 AND n < 4",
        ["fact"],
    ),
    "around groups": ("SELECT * FROM (SELECT k, max(note) AS m FROM fact GROUP BY k) WHERE k = 3", ["fact"]),
    "HAVING a key": ("SELECT k, max(note) FROM fact GROUP BY k HAVING k IN (3, 4) AND count(*) > 1", ["fact"]),
    "around DISTINCT": ("SELECT * FROM (SELECT DISTINCT k, note FROM fact) WHERE k = 3", ["fact"]),
    "into the arms of a union": (
        "SELECT * FROM (SELECT id, k FROM fact UNION ALL SELECT id, j FROM orders) u WHERE k = 3", ["fact", "orders"],
    ),
    "into an intersection": (
        "SELECT * FROM (SELECT k, note FROM fact INTERSECT SELECT k, note FROM orders) WHERE k = 3", ["fact", "orders"],
    ),
    "from one arm of an intersection into the other": (
        "SELECT k FROM fact WHERE k IN (3, 4) OR k IS NULL INTERSECT SELECT j FROM orders", ["fact", "orders"],
    ),
    "from the first arm of an exception into the second": (
        "SELECT k + 0 AS k FROM fact WHERE k = 3 EXCEPT SELECT k FROM (SELECT k, note FROM orders) WHERE note <> 'x'",
        ["fact"],
    ),  # nothing is known of an expression
    "not into the first arm of an exception": (
        "SELECT k, note FROM fact EXCEPT SELECT k, note FROM orders WHERE k = 3", ["orders"],
    ),
    "into an exception": (
        "SELECT * FROM (SELECT k, note FROM fact EXCEPT SELECT k, note FROM orders WHERE j = 1) WHERE k = 3",
        ["fact", "orders"],
    ),
    "a SQL function": ("SELECT id FROM fact WHERE is_three(k)", ["fact"]),
    "a lateral alias": ("SELECT k AS a, a + 1 AS b FROM fact WHERE k = 2", ["fact"]),
    "a lateral join": (
        "SELECT d.name, x.id FROM dim d, LATERAL (SELECT id FROM fact f WHERE f.k = d.k AND f.g = 3) x WHERE d.k = 5",
        ["dim", "fact"],
    ),
    "a pipe": ("FROM fact |> WHERE k = 3 |> EXTEND id + 1 AS n |> WHERE g > 20 |> SELECT n, note", ["fact"]),
    "a pivot": ("SELECT * FROM (SELECT k, j, note FROM fact WHERE k = 3) PIVOT (max(note) FOR j IN (1, 2))", ["fact"]),
    "unpivoted": ("SELECT * FROM (SELECT k, j, g FROM fact WHERE g = 3) UNPIVOT (v FOR n IN (k, j)) WHERE n = 'k'",
                  ["fact"]),
    "CASE": ("SELECT id FROM fact WHERE CASE WHEN k = 3 THEN 'a' WHEN k = 4 THEN 'b' END = 'a'", ["fact"]),
    "a semi-join": ("SELECT id FROM fact WHERE g = 3 AND k IN (SELECT k FROM orders WHERE g = 2)", ["fact", "orders"]),
    "NATURAL, USING": ("SELECT * FROM fact NATURAL JOIN (SELECT k FROM dim WHERE name = 'n3') WHERE g = 2",
                       ["dim", "fact"]),
    "brackets around joins": (
        "SELECT f.id FROM (fact f JOIN (dim d JOIN plain p ON d.k = p.k) ON f.k = d.k) WHERE f.g = 2 AND d.name = 'n3'",
        ["dim", "fact"],
    ),
    "FROM first": ("FROM fact SELECT id WHERE k = 3", ["fact"]),
    "TABLE and VALUES": ("SELECT f.id FROM fact f JOIN VALUES (3), (4) AS v(k) ON f.k = v.k WHERE f.g = 5", ["fact"]),
    "names behind a database": ("SELECT {db}.fact.id FROM {db}.fact WHERE {db}.fact.k = 3", ["fact"]),
    "identifiers": ("SELECT id FROM IDENTIFIER('fa' || 'ct') WHERE k = 3", ["fact"]),
    "a text of a SerDe": ("SELECT id, note FROM lines WHERE k = 3", []),
}  # fmt: skip


@pytest.fixture(scope="module")
def more(tables: SparkSession) -> SparkSession:
    """Return the tables' session, with a SQL function `is_three`."""
    tables.sql("CREATE FUNCTION is_three(x INT) RETURNS BOOLEAN RETURN x = 3")
    return tables


@pytest.mark.parametrize("about", NARROWED)
def test_what_spark_derives_narrows(more: SparkSession, about: str) -> None:
    text, narrowed = NARROWED[about]
    text = text.replace("{db}", more.catalog.currentDatabase())
    found = [table for table, action in used(more, text, "rows") if action == "narrowed"]
    assert all(found.count(table) >= narrowed.count(table) for table in narrowed), found
    require_alike_always(more, text)


def test_a_variable_is_a_constant(more: SparkSession) -> None:
    more.sql("DECLARE OR REPLACE VARIABLE wanted INT DEFAULT 3")
    text = "SELECT id FROM fact WHERE k = wanted AND g < 9"
    try:
        assert used(more, text, "rows") == [("fact", "narrowed")]
        for value in (4, "NULL", 3):
            more.sql(f"SET VAR wanted = {value}")
            require_alike(more, text, "rows")
            require_alike(more, "SELECT count(k) FROM fact WHERE k = wanted", "index only")
    finally:
        more.sql("DROP TEMPORARY VARIABLE wanted")


ANSWERED = {
    "SELECT count(*) FROM (SELECT * FROM fact WHERE k = 3)": 1,
    "SELECT count(*) FROM (SELECT k AS a FROM fact) WHERE a > 3": 1,
    "WITH w AS (SELECT k AS a FROM fact) SELECT a, count(*) FROM w WHERE a <> 3 GROUP BY a": 1,
    "SELECT (SELECT max(k) FROM fact WHERE s = 's1') AS m, (SELECT count(*) FROM orders WHERE k = 3) AS n": 2,
    "SELECT k FROM fact GROUP BY k": 1,
    "SELECT a, count(*) AS n FROM (SELECT k AS a FROM fact WHERE j = 3) GROUP BY ALL ORDER BY n DESC, a LIMIT 3": 1,
    "SELECT count(*) AS n FROM fact WHERE k = 3 UNION ALL SELECT count(*) FROM orders WHERE j = 3": 2,
    "SELECT count(DISTINCT k), min(j), max(j) FROM fact": 1,
    "SELECT sum(k), avg(k), count(k) FROM fact WHERE k > 2": 1,
    "SELECT day, count(*) FROM part GROUP BY day": 1,
    "SELECT day, k, count(*) FROM part WHERE day > 3 GROUP BY day, k": 1,
    "SELECT count(*) FILTER (WHERE k > 3) AS n FROM fact": 1,
    "SELECT k, n FROM (SELECT k, count(*) AS n FROM fact GROUP BY k) WHERE n > 100": 1,
    "SELECT DISTINCT s FROM fact": 1,
    "SELECT EXISTS (SELECT 1 FROM fact WHERE k = 3) AS e": 1,
    "SELECT d.name, c.n FROM dim d JOIN (SELECT k, count(*) AS n FROM fact GROUP BY k) c ON d.k = c.k": 1,
}


@pytest.mark.parametrize("text", ANSWERED)
def test_aggregates_are_answered_wherever_they_stand(more: SparkSession, text: str) -> None:
    found = [action for _, action in used(more, text, "index only")]
    assert found.count("answered") >= ANSWERED[text], found
    require_alike_always(more, text, ordered="ORDER BY" in text)
