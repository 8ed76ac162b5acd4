"""What a query demands of its scans, by hand: the cases in which a wrong rule would lose rows.

That no rule loses rows is shown by the corpus and the random queries in tests/integration; here stands what they mean.
"""

from __future__ import annotations

import pytest

from hive_bitmap.columns import Column
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.query.rewrite.demands import scans
from hive_bitmap.query.rewrite.passing import Look, nothing
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.tree import Scan
from hive_bitmap.query.rewrite.words import read


def demanded(text: str, look: Look = nothing) -> dict[str, list[str]]:
    """The demands on each scan, by its name in the query; `!` marks those that only count if they refuse NULLs."""
    return {
        one.scan.alias: [f"{'!' * demand.strict}{demand.text}" for demand in one.demands]
        for one in scans(statement(read(text)), look)
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM t WHERE a = 1 AND b BETWEEN 2 AND 3", {"t": ["a = 1", "b BETWEEN 2 AND 3"]}),
        ("SELECT * FROM t WHERE a = 1 OR b = 2", {"t": ["a = 1 OR b = 2"]}),
        ("SELECT * FROM t WHERE (a = 1 OR b = 2) AND c", {"t": ["(a = 1 OR b = 2)", "c"]}),
        ("SELECT * FROM t WHERE CASE WHEN a AND b THEN c END AND d", {"t": ["CASE WHEN a AND b THEN c END", "d"]}),
        ("SELECT a FROM t GROUP BY a HAVING a = 1", {"t": []}),
        ("SELECT a IS DISTINCT FROM b FROM t WHERE c", {"t": ["c"]}),
        ("SELECT * FROM t LEFT JOIN u ON t.a = 1 AND u.b = 2", {"t": [], "u": ["t.a = 1", "u.b = 2"]}),
        ("SELECT * FROM t LEFT JOIN u ON on_ WHERE w", {"t": ["w"], "u": ["on_", "!w"]}),
        ("SELECT * FROM t RIGHT JOIN u ON on_ WHERE w", {"t": ["on_", "!w"], "u": ["w"]}),
        ("SELECT * FROM t, u RIGHT JOIN v ON on_ WHERE w", {"t": ["!w"], "u": ["on_", "!w"], "v": ["w"]}),
        ("SELECT * FROM t, u FULL JOIN v ON on_ WHERE w", {"t": ["!w"], "u": ["!w"], "v": ["!w"]}),
        ("SELECT * FROM t, u LEFT JOIN v ON on_ WHERE w", {"t": ["w"], "u": ["w"], "v": ["on_", "!w"]}),
        ("SELECT * FROM t RIGHT JOIN u ON on_, v WHERE w", {"t": ["on_", "!w"], "u": ["w"], "v": ["w"]}),
        ("SELECT * FROM t FULL JOIN u ON on_ WHERE w", {"t": ["!w"], "u": ["!w"]}),
        ("SELECT * FROM t SEMI JOIN u ON on_ WHERE w", {"t": ["on_", "w"], "u": ["on_"]}),
        ("SELECT * FROM t LEFT ANTI JOIN u ON on_ WHERE w", {"t": ["w"], "u": ["on_"]}),
        ("SELECT * FROM t LEFT JOIN u ON a JOIN v ON b", {"t": ["b"], "u": ["a", "!b"], "v": ["b"]}),
        ("SELECT * FROM t, u LEFT JOIN v ON a WHERE w", {"t": ["w"], "u": ["w"], "v": ["a", "!w"]}),
        ("SELECT * FROM t JOIN u USING (k) WHERE k = 1 AND a = 2", {"t": ["k = 1", "a = 2"], "u": ["a = 2"]}),
        ("SELECT * FROM t FULL JOIN u USING (k) WHERE k = 1 AND u.k = 2", {"t": ["!u.k = 2"], "u": ["!u.k = 2"]}),
        ("SELECT * FROM t NATURAL JOIN u WHERE k = 1 AND u.k = 2", {"t": ["k = 1", "u.k = 2"], "u": ["u.k = 2"]}),
        ("SELECT * FROM t WHERE a IN (SELECT b FROM u WHERE c = 1)", {"t": ["a IN (SELECT b FROM u WHERE c = 1)"],
                                                                      "u": ["c = 1"]}),
        ("SELECT * FROM (SELECT a AS b, c FROM t) d WHERE d.b = 1 AND c = 2", {"t": ["a = 1", "c = 2"]}),
        ("SELECT * FROM (SELECT a + 1 AS b FROM t) d WHERE b = 1", {"t": []}),
        ("SELECT * FROM (SELECT a FROM t) d, u WHERE a = 1 AND b = 2", {"t": ["a = 1"], "u": ["a = 1", "b = 2"]}),
        ("SELECT * FROM (SELECT a FROM t LIMIT 3) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT a, max(b) AS m FROM t GROUP BY a) d WHERE a = 1 AND m = 2", {"t": ["a = 1"]}),
        ("SELECT * FROM (SELECT a AS b FROM t GROUP BY b, a HAVING max(c) > 0) d WHERE b = 1", {"t": ["a = 1"]}),
        ("SELECT * FROM (SELECT a, max(b) FROM t GROUP BY a WITH ROLLUP) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT a, max(b) FROM t GROUP BY CUBE (a)) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT a, max(b) FROM t GROUP BY a GROUPING SETS (a, ())) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT a, sum(max(b)) OVER (ORDER BY a) FROM t GROUP BY a) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT a % 2 AS a, max(b) FROM t GROUP BY a % 2) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT DISTINCT a, b FROM t) d WHERE a = 1", {"t": ["a = 1"]}),
        ("SELECT * FROM (SELECT a, rand(3) AS r FROM t) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT a, lag(b) OVER (ORDER BY c) FROM t) d WHERE a = 1", {"t": []}),
        ("SELECT * FROM u LEFT JOIN (SELECT a FROM t) d ON d.a = 1 WHERE d.a IS NULL",
         {"u": ["d.a IS NULL"], "t": ["a = 1", "!a IS NULL"]}),
        ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT b FROM u) d WHERE a = 1", {"t": [], "u": []}),
        ("WITH x AS (SELECT a FROM t) SELECT * FROM x WHERE a = 1", {"t": ["a = 1"]}),
        ("WITH x AS (SELECT a FROM t) SELECT * FROM x, x y WHERE x.a = 1", {"t": []}),
        ("WITH x AS (SELECT a, b FROM t) SELECT * FROM x, x y WHERE x.a = 1 AND x.b = 3 AND y.a = 2",
         {"t": ["((a = 1) AND (b = 3)) OR ((a = 2))"]}),
        ("WITH x AS (SELECT a FROM t) SELECT * FROM u LEFT JOIN x ON a = 1 WHERE (SELECT 1 FROM x WHERE a = 2) > 0",
         {"u": ["(SELECT 1 FROM x WHERE a = 2) > 0"], "t": ["((a = 1)) OR ((a = 2))"]}),
        ("WITH x AS (SELECT a FROM t) SELECT a FROM x WHERE a = 1 UNION SELECT a FROM x",  {"t": []}),
        ("WITH x AS (SELECT a FROM t), y AS (SELECT a FROM x WHERE a = 1) SELECT * FROM y, x WHERE x.a = 2",
         {"t": ["((a = 2)) OR ((a = 1))"]}),
        ("WITH x AS (SELECT a FROM t) SELECT * FROM x WHERE a = 1 AND EXISTS (SELECT 1 FROM (x JOIN u ON b))",
         {"t": []}),
        ("WITH t AS (SELECT * FROM t WHERE a = 1) SELECT * FROM t WHERE b = 2", {"t": ["a = 1"]}),
        ("SELECT * FROM t WHERE a = 1 AND group = 3", {"t": ["a = 1", "group = 3"]}),
        ("WITH u AS (SELECT 1 AS a) SELECT * FROM u JOIN t ON b WHERE c", {"t": ["b", "c"]}),
        ("SELECT * FROM t AS x (a, b) WHERE a = 1", {}),
        ("SELECT * FROM (t JOIN u ON a) JOIN v ON b WHERE c", {"v": ["b", "c"]}),
        ("INSERT INTO x SELECT * FROM t WHERE a = 1", {"t": ["a = 1"]}),
        ("CREATE TABLE x USING parquet AS SELECT * FROM t WHERE a = 1", {"t": ["a = 1"]}),
    ],
)  # fmt: skip
def test_demands(text: str, wanted: dict[str, list[str]]) -> None:
    assert demanded(text) == wanted


COLUMNS = {
    "t": "a int, b string, c decimal(9,2)",
    "u": "c int, d string, e decimal(9,2)",
    "v": "a bigint, b string, c decimal(9,3)",
    "w": "a int, k char(3)",
}


def look(scan: Scan) -> list[Column] | None:
    """The columns of the tables above; of others nothing is known."""
    said = COLUMNS.get(scan.name[-1])
    return None if said is None else [Column(*one.split()) for one in said.split(", ")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM (SELECT a, b FROM t UNION ALL SELECT c, d FROM u) x WHERE x.a = 1 AND b = 'z'",
         {"t": ["a = 1", "b = 'z'"], "u": ["c = 1", "d = 'z'"]}),
        ("SELECT * FROM (SELECT a AS k FROM t UNION SELECT u.c FROM u) x WHERE k = 1",
         {"t": ["a = 1"], "u": ["u.c = 1"]}),
        ("SELECT * FROM (SELECT a FROM t INTERSECT ALL SELECT c FROM u EXCEPT SELECT a FROM w) x WHERE a = 1",
         {"t": ["a = 1"], "u": ["c = 1"], "w": ["a = 1"]}),
        ("SELECT * FROM (SELECT a, b FROM t UNION ALL SELECT a, b FROM v) x WHERE a = 1 AND b = 'z'",
         {"t": ["b = 'z'"], "v": ["b = 'z'"]}),  # int and bigint
        ("SELECT * FROM (SELECT c FROM t UNION ALL SELECT c FROM v) x WHERE c = 1", {"t": [], "v": []}),
        ("SELECT * FROM (SELECT * FROM t UNION ALL SELECT * FROM u) x WHERE a = 1 AND b = 'z'",
         {"t": ["`t`.`a` = 1", "`t`.`b` = 'z'"], "u": ["`u`.`c` = 1", "`u`.`d` = 'z'"]}),
        ("SELECT * FROM (SELECT p.*, 1 AS one FROM t p UNION ALL SELECT *, 2 FROM u) x WHERE a = 1",
         {"p": ["`p`.`a` = 1"], "u": ["`u`.`c` = 1"]}),
        ("SELECT * FROM (SELECT * FROM t, w UNION ALL SELECT * FROM u, w y) x WHERE b = 'z'",
         {"t": ["`t`.`b` = 'z'"], "w": ["`t`.`b` = 'z'"], "u": ["`u`.`d` = 'z'"], "y": ["`u`.`d` = 'z'"]}),
        ("SELECT * FROM (SELECT a, s.* FROM t UNION ALL SELECT s.*, c FROM u) x WHERE a = 1", {"t": [], "u": []}),
        ("SELECT * FROM (SELECT * FROM t UNION ALL SELECT a, b FROM v) x WHERE b = 'z'", {"t": [], "v": []}),
        ("SELECT * FROM (SELECT * EXCEPT (c) FROM t UNION ALL SELECT a, b FROM v) x WHERE b = 'z'", {"t": [], "v": []}),
        ("SELECT * FROM (SELECT s.*, a, c FROM t UNION ALL SELECT a, s.*, c FROM t u) x WHERE a = 1",
         {"t": [], "u": []}),  # a struct
        ("SELECT * FROM (SELECT k, k AS l FROM w UNION ALL SELECT b, d FROM t, u) x WHERE k = 'z'",
         {"w": [], "t": [], "u": []}),  # CHAR
        ("SELECT * FROM (SELECT k FROM w UNION ALL SELECT k FROM w y) x WHERE k = 'z'", {"w": [], "y": []}),
        ("SELECT * FROM (SELECT a, 'p' AS kind FROM t UNION ALL SELECT c, 'q' FROM u) x WHERE kind = 'p' AND a = 1",
         {"t": ["a = 1"], "u": ["c = 1"]}),
        ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT 1) x WHERE a = 1", {"t": []}),
        ("SELECT * FROM (SELECT a, b FROM t UNION ALL SELECT c, explode(d) FROM u) x WHERE a = 1", {"t": [], "u": []}),
        ("SELECT * FROM (SELECT a, a FROM t UNION ALL SELECT c, c FROM u) x WHERE a = 1", {"t": [], "u": []}),
        ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT a FROM elsewhere) x WHERE a = 1", {"t": [], "elsewhere": []}),
        ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT c FROM u LIMIT 3) x WHERE a = 1", {"t": [], "u": []}),
        ("SELECT * FROM (SELECT a FROM t UNION ALL (SELECT c FROM u LIMIT 3)) x WHERE a = 1",
         {"t": ["a = 1"], "u": []}),
        ("SELECT * FROM (SELECT a FROM t UNION ALL (SELECT c FROM u UNION SELECT a FROM w)) x WHERE a = 1",
         {"t": ["a = 1"], "u": ["c = 1"], "w": ["a = 1"]}),
        ("SELECT * FROM (SELECT a, count(*) FROM t GROUP BY a UNION ALL SELECT c, 1 FROM u) x WHERE a = 1",
         {"t": ["a = 1"], "u": ["c = 1"]}),
        ("SELECT * FROM (SELECT max(a) AS a FROM t UNION ALL SELECT c FROM u) x WHERE a = 1", {"t": [], "u": []}),
        ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT y.c FROM (SELECT * FROM u) y) x WHERE a = 1",
         {"t": ["a = 1"], "u": ["c = 1"]}),
        ("SELECT * FROM (SELECT a FROM t LEFT JOIN u ON d = b UNION ALL SELECT c FROM u y) x WHERE a = 1",
         {"t": ["a = 1"], "u": ["d = b", "!a = 1"], "y": ["c = 1"]}),
        ("SELECT * FROM (SELECT a FROM t JOIN w USING (a) UNION ALL SELECT c FROM u) x WHERE a = 1",
         {"t": [], "w": [], "u": []}),
        ("SELECT * FROM (SELECT a FROM t SEMI JOIN w ON b = k UNION ALL SELECT c FROM u) x WHERE a = 1",
         {"t": ["b = k", "a = 1"], "w": ["b = k"], "u": ["c = 1"]}),
        ("WITH x AS (SELECT a FROM t UNION SELECT c FROM u) SELECT * FROM x WHERE a = 1",
         {"t": ["a = 1"], "u": ["c = 1"]}),
        ("WITH x AS (SELECT a FROM t UNION SELECT c FROM u) SELECT * FROM x, x y WHERE x.a = 1 AND y.a = 2",
         {"t": ["((a = 1)) OR ((a = 2))"], "u": ["((c = 1)) OR ((c = 2))"]}),
        ("WITH x AS (SELECT a FROM t), y AS (SELECT a FROM x UNION ALL SELECT c FROM u) SELECT * FROM y WHERE a = 1",
         {"t": ["a = 1"], "u": ["c = 1"]}),
        ("SELECT p FROM (SELECT a, b FROM t UNION ALL SELECT c, d FROM u) AS x (p, q) WHERE p = 1", {"t": [], "u": []}),
    ],
)  # fmt: skip
def test_demands_on_set_operations(text: str, wanted: dict[str, list[str]]) -> None:
    assert demanded(text, look) == wanted


def test_a_scan_is_found_once() -> None:
    text = "SELECT * FROM t JOIN u ON a IN (SELECT b FROM w) JOIN (SELECT * FROM v WHERE c) d ON b WHERE d.x = 1"
    assert [one.scan.alias for one in scans(statement(read(text)))] == ["t", "u", "v", "w"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t WHERE limit = 3",  # a column named like a keyword
        "SELECT * FROM t JOIN u ON a = left JOIN v ON b",
        "SELECT where FROM t WHERE a = 1",
        "SELECT * FROM t TABLESAMPLE (5 PERCENT) WHERE a = 1",
        "SELECT * FROM t VERSION AS OF 3 WHERE a = 1",
        "SELECT * FROM t LATERAL VIEW explode(b) x AS y WHERE a = 1",
        "SELECT * FROM t, LATERAL (SELECT t.a) WHERE a = 1",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2)) WHERE c = 1",
        "SELECT /*+ BROADCAST(t) */ * FROM t WHERE a = 1",
        "SELECT input_file_name() FROM t WHERE a = 1",
        "SELECT _metadata.file_path FROM t WHERE a = 1",
        "SELECT * FROM identifier('t') WHERE a = 1",
        "WITH RECURSIVE x AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM x) SELECT * FROM x, t WHERE t.a = 1",
        "FROM t SELECT * WHERE a = 1",
        "FROM t |> WHERE a = 1",
        "SELECT 1; SELECT 2",
        "INSERT OVERWRITE t SELECT * FROM t WHERE a = 1",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
        "UPDATE t SET a = 1 WHERE b = 2",
        "DELETE FROM t WHERE a = 1",
        "CREATE VIEW v AS SELECT * FROM t WHERE a = 1",
        "CACHE TABLE x AS SELECT * FROM t WHERE a = 1",
        "SELECT * FROM t WHERE a = ${a}",
        "SELECT * FROM t WHERE a = 'open",
    ],
)
def test_what_is_not_understood_is_left_alone(text: str) -> None:
    with pytest.raises(HiveBitmapError):
        demanded(text)


@pytest.mark.parametrize(
    ("text", "star"),
    [
        ("SELECT * FROM t", True),
        ("SELECT t.*, 1 FROM t", True),
        ("SELECT struct(*) FROM t", True),
        ("SELECT count(DISTINCT *) FROM t", True),
        ("SELECT count(*), a * b FROM t", False),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1)", False),
        ("SELECT a FROM t NATURAL JOIN u", True),
    ],
)
def test_stars_ask_for_every_column(text: str, star: bool) -> None:
    assert {one.star for one in scans(statement(read(text)))} == {star}
