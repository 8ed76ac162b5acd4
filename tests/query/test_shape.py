"""Which blocks the counts of keys may answer, and what is seen in them. No Spark: names of results are given."""

from __future__ import annotations

import pytest

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.query.rewrite.shape import Shape, shape_of
from hive_bitmap.query.rewrite.words import read

COLUMNS = (
    Column("k", "int"),
    Column("s", "string"),
    Column("d", "date"),
    Column("f", "double"),
    Column("c", "char(4)"),
)


def shape(text: str, *shown: str, single_row: bool = False) -> Shape:
    return shape_of(read(text), COLUMNS, shown, single_row)


@pytest.mark.parametrize(
    ("text", "shown", "keys", "groups", "aggregates"),
    [
        ("SELECT count(*) FROM t", "count(1)", "", "", "COUNT"),
        ("SELECT k, count(*) n FROM t a WHERE s = 'x' GROUP BY k", "k n", "k", "k", "COUNT"),
        (
            "SELECT a.k AS key, min(s), max(a.d) FROM db.t AS a GROUP BY a.k",
            "key min(s) max(d)",
            "k s d",
            "k",
            "MIN MAX",
        ),
        ("SELECT s, k FROM t GROUP BY ALL HAVING count(DISTINCT d) > 1 ORDER BY 2", "s k", "s k d", "s k", "COUNT"),
        ("SELECT k, sum(k) FROM t GROUP BY 1 LIMIT 3", "k sum(k)", "k", "k", "SUM"),
        ("SELECT upper(s) u, avg(k) FROM t GROUP BY upper(s)", "u avg(k)", "s k", "", "AVG"),
        ("SELECT f, count(f) FROM t GROUP BY f HAVING f > 0", "f count(f)", "f", "f", "COUNT"),
        ("SELECT count(*) FILTER (WHERE k IS DISTINCT FROM 2) n FROM t", "n", "k", "", "COUNT"),
        ("SELECT DISTINCT year(d), k FROM t ORDER BY k", "year(d) k", "d k", "", ""),
        ("SELECT k FROM t WHERE s = 'from' LIMIT 1", "k", "k", "", ""),
    ],
)
def test_keys_groups_and_aggregates(text: str, shown: str, keys: str, groups: str, aggregates: str) -> None:
    found = shape(text, *shown.split())
    assert [key.name for key in found.keys] == keys.split()
    assert [group.name for group in found.groups] == groups.split()
    assert [aggregate.function for aggregate in found.aggregates] == aggregates.split()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT k FROM t", "k"),  # the rows
        ("SELECT k FROM t LIMIT 2", "k"),
        ("SELECT * FROM t LIMIT 1", "k"),
        ("SELECT t.* FROM t LIMIT 1", "k"),
        ("SELECT DISTINCT * FROM t", "k"),
        ("SELECT count(*) FROM t, u", "count(1)"),
        ("SELECT count(*) FROM t JOIN u ON TRUE", "count(1)"),
        ("SELECT count(*) FROM (SELECT 1) t", "count(1)"),
        ("SELECT count(*) FROM t TABLESAMPLE (5 ROWS)", "count(1)"),
        ("SELECT count(*) FROM t UNION SELECT 1", "count(1)"),
        ("SELECT count(*) OVER () FROM t", "x"),
        ("SELECT k, rank() OVER (ORDER BY count(*)) r FROM t GROUP BY k", "k r"),
        ("SELECT k, count(*) FROM t GROUP BY ROLLUP (k)", "k count(1)"),
        ("SELECT k, count(*) FROM t GROUP BY k WITH CUBE", "k count(1)"),
        ("SELECT k, first(s) FROM t GROUP BY k", "k first(s)"),
        ("SELECT k, rand() FROM t GROUP BY k", "k r"),
        ("SELECT max(f) FROM t", "max(f)"),
        ("SELECT sum(f) FROM t", "sum(f)"),
        ("SELECT DISTINCT 1 / f x FROM t", "x"),
        ("SELECT count(DISTINCT f, k) FROM t", "x"),
        ("SELECT f FROM t LIMIT 1", "f"),
        ("SELECT c, count(*) FROM t GROUP BY c", "c count(1)"),
        ("SELECT count(k, s) FROM t", "x"),
        ("SELECT count(*) AS k FROM t ORDER BY k", "k"),
        ("SELECT k, (SELECT 1) x FROM t GROUP BY k", "k x"),
        ("SELECT nowhere FROM t GROUP BY nowhere", "nowhere"),
        ("SELECT s.k, count(*) FROM t GROUP BY s.k", "k count(1)"),
        ("SELECT count(*) FROM t GROUP BY ALL", "count(1)"),
        ("SELECT k FROM t LIMIT 1 OFFSET 1", "k"),
        ("SELECT transform(k) USING 'cat' FROM t", "x"),
        ("FROM t SELECT count(*)", "count(1)"),
    ],
)
def test_all_else_is_refused(text: str, shown: str) -> None:
    with pytest.raises(Unsupported):
        shape(text, *shown.split())


def test_where_nobody_asks_how_often_rows_occur_rows_will_do() -> None:
    assert [key.name for key in shape("SELECT k FROM t WHERE d > s", "k", single_row=True).keys] == ["k"]
