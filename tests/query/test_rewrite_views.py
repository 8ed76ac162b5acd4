"""The query of a view in place of its name: what is written there, and which views are left to Spark."""

from __future__ import annotations

import pytest

from hive_bitmap.columns import Column
from hive_bitmap.index.metastore import Table, ViewText
from hive_bitmap.query.rewrite.demands import scans
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.views import View, expanded, view_of
from hive_bitmap.query.rewrite.words import read


def table(name: str, text: str, columns: str, query_columns: str = "", namespace: str = "spark_catalog.db") -> Table:
    said = ViewText(text, tuple(namespace.split(".")), tuple((query_columns or columns).split()))
    return Table("db", name, "VIEW", columns=tuple(Column(one, "int") for one in columns.split()), view=said)


def put(text: str, *views: Table) -> str:
    """A text with the queries of these views in place of their names."""
    known: dict[str, View] = {}
    for one in views:
        view = view_of(one)
        assert view is not None
        known |= {one.name: view, view.name: view}
    words = read(text)
    named = sorted(((one.scan, ".".join(one.scan.name)) for one in scans(statement(words))), key=lambda n: n[0].start)
    return expanded(words, named, known.get).text


V = table("v", "SELECT a, b FROM t WHERE a > 1 -- some", "x y", "a b")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "SELECT x FROM v WHERE y = 2",
            "SELECT x FROM (SELECT `a` AS `x`, `b` AS `y` FROM (SELECT a, b FROM `spark_catalog`.`db`.`t` WHERE a > 1)"
            " AS hive_bitmap_view) AS `v` WHERE y = 2",
        ),
        (
            "WITH t AS (SELECT 1) SELECT x FROM t, v AS w",
            "WITH t AS (SELECT 1) SELECT x FROM t, (SELECT `a` AS `x`, `b` AS `y` FROM (SELECT a, b FROM "
            "`spark_catalog`.`db`.`t` WHERE a > 1) AS hive_bitmap_view) AS w",
        ),
        ("WITH v AS (SELECT 1) SELECT x FROM v", "WITH v AS (SELECT 1) SELECT x FROM v"),
        ("SELECT v FROM t", "SELECT v FROM t"),
    ],
)
def test_names_become_queries(text: str, wanted: str) -> None:
    assert put(text, V) == wanted


def test_views_over_views() -> None:
    over = table("over", "SELECT x FROM v JOIN other.u ON x = k", "x", namespace="spark_catalog.db")
    inner = (
        "SELECT `a` AS `x`, `b` AS `y` FROM (SELECT a, b FROM `spark_catalog`.`db`.`t` WHERE a > 1) AS hive_bitmap_view"
    )
    assert put("SELECT * FROM over", over, V) == (
        f"SELECT * FROM (SELECT `x` AS `x` FROM (SELECT x FROM ({inner}) AS `v` JOIN `spark_catalog`.`other`.`u` "
        "ON x = k) AS hive_bitmap_view) AS `over`"
    )


def test_compared_is_the_query_with_the_names_in_it() -> None:
    view = view_of(table("over", "SELECT x FROM v JOIN spark_catalog.other.u ON x = k", "x"))
    assert view is not None
    assert view.query == "SELECT x FROM `spark_catalog`.`db`.`v` JOIN `spark_catalog`.`other`.`u` ON x = k"
    assert view.select(["bigint"]) == "SELECT CAST(`x` AS bigint) AS `x` FROM ("


@pytest.mark.parametrize(
    "text",
    [
        "WITH q AS (SELECT a FROM t) SELECT a FROM q",  # no two plans with such are the same
        "SELECT a FROM (t JOIN u ON b = c)",  # tables that are not seen here
        "SELECT a FROM t AS x (a, b)",
        "SELECT a FROM range(3)",
        "SELECT a FROM t WHERE a IN (TABLE u)",
        "SELECT a FROM t WHERE a IN (FROM u SELECT b)",
        "SELECT a FROM VALUES (1) AS t (a)",
        "SELECT a FROM t, LATERAL (SELECT 1)",
        "SELECT trim(LEADING FROM a) AS a FROM t",
        "SELECT /*+ BROADCAST(t) */ a FROM t",
        "SELECT input_file_name() AS a FROM t",
        "TABLE t",
        "FROM t SELECT a",
        "SELECT a FROM t WHERE a = 'open",
    ],
)
def test_views_that_are_left_to_spark(text: str) -> None:
    assert view_of(table("v", text, "a")) is None


def test_views_of_elsewhere_or_with_columns_of_one_name() -> None:
    assert view_of(table("v", "SELECT a FROM t", "a", namespace="other.db")) is None
    assert view_of(table("v", "SELECT a, A FROM t", "x y", "a A")) is None
    assert view_of(table("v", "SELECT a, b FROM t", "x", "a b")) is None
    assert view_of(Table("db", "t", "MANAGED")) is None
