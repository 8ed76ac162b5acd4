"""Blocks over queries in brackets as blocks over the table: sqlite3 answers both alike, or there is none."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator

import pytest

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.query.rewrite.nested import flattened, nests
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.words import read

COLUMNS = (Column("k", "int"), Column("s", "string"), Column("b", "bigint"), Column("c", "char(2)"))


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    rng = random.Random(3)
    rows = [(rng.choice([None, 1, 2, 3]), rng.choice(["a", "b", None]), rng.randrange(5)) for _ in range(300)]
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k, s, b, c)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, 'x ')", rows)
        yield connection
    connection.close()


def flat(text: str) -> str | None:
    """The text with its outer block over the table, None where it stays."""
    words = read(text)
    found = nests(statement(words))
    if not found:
        return None
    [nest] = found.values()
    try:
        told = flattened(words, nest, "`t`", COLUMNS)
    except Unsupported:
        return None
    start, end = words.tokens[nest.block.start].start, words.tokens[nest.block.end - 1].end
    return text[:start] + told + text[end:]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM (SELECT * FROM t)",
        "SELECT count(*) AS n FROM (SELECT * FROM t WHERE k = 1) AS x",
        "SELECT x.s, count(*) FROM (SELECT s, k FROM t AS u WHERE u.b > 2 AND u.k < 3) x WHERE x.k = 1 GROUP BY s",
        "SELECT s, sum(b) FROM (SELECT * FROM (SELECT b, s FROM t WHERE k = 2) y WHERE y.s = 'a') x GROUP BY s",
        "SELECT DISTINCT K FROM (SELECT k, S FROM t WHERE s = 'b' OR k IS NULL) x WHERE s = 'b' ORDER BY k LIMIT 2",
        "SELECT min(b), max(b) FROM (SELECT `b` AS `b`, x.k AS k FROM (SELECT * FROM t) AS x) AS v WHERE v.k <> 2",
        "WITH w AS (SELECT * FROM t WHERE k = 3) SELECT count(*) FROM w AS z WHERE z.b = 0",
        "WITH w AS (SELECT k FROM t WHERE b = 3) SELECT k, count(*) FROM w GROUP BY k",
        "SELECT b IN (SELECT max(b) FROM (SELECT b FROM t WHERE k = 1) x) FROM (SELECT 4 AS b) q",
        "SELECT count(*) AS b FROM (SELECT k FROM t) x",
        "SELECT count(*) FROM (SELECT k, k FROM t WHERE s = 'a') x",
        "SELECT count(*) FROM (SELECT k FROM t WHERE c = 'x ') x WHERE k = 2",
        "SELECT count(*) FROM (SELECT *, k FROM t WHERE s = 'a') x",
        "SELECT count(*) FROM (SELECT k AS b FROM t WHERE b = 1) x",
        "SELECT count(*) FROM (SELECT x.* FROM t AS x WHERE x.b = 1) x",
    ],
)
def test_the_answers_are_the_same(database: sqlite3.Connection, text: str) -> None:
    told = flat(text)
    assert told is not None
    assert sorted(database.execute(told), key=repr) == sorted(database.execute(text), key=repr)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM (SELECT * FROM t) x",
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM (SELECT DISTINCT k FROM t) x",
        "SELECT count(*) FROM (SELECT s.k FROM t) x WHERE k = 1",  # a field of a struct
        "SELECT count(*) FROM (SELECT t.s.k FROM t) x WHERE k = 1",
        "SELECT count(*) FROM (SELECT y.k FROM (SELECT s AS y, k FROM t) x) x WHERE k = 1",
        "SELECT count(*) FROM (SELECT b AS s, k FROM t) x WHERE s.k = 1",
        "SELECT count(*) FROM (SELECT nope, k FROM t) x",  # no column
        "SELECT count(*) FROM (SELECT y.k, s FROM t) x",
        "SELECT count(*) FROM (SELECT *, nope FROM t) x",
        "SELECT count(*) FROM (SELECT y.* FROM t) x",
        "SELECT count(*) FROM (SELECT k FROM (SELECT nope, k FROM t) y) x",
        "SELECT count(*) FROM (SELECT k FROM t ORDER BY nope) x",
        "SELECT count(*) FROM (SELECT k FROM t LIMIT 3) x",
        "SELECT count(*) FROM (SELECT k FROM t GROUP BY k) x",
        "SELECT count(*) FROM (SELECT max(k) FROM t) x",
        "SELECT count(*) FROM (SELECT first(k) FROM t) x",
        "SELECT count(*) FROM (SELECT explode(array(1, 2)) FROM t) x",
        "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY k) AS k FROM t) x",
        "SELECT count(*) FROM (SELECT k + 1 AS k FROM t) x",
        "SELECT count(*) FROM (SELECT k FROM t UNION ALL SELECT k FROM t) x",
        "SELECT count(*) FROM (SELECT k FROM t WHERE rand() < 0.5) x",
        "SELECT count(*) FROM (SELECT k FROM t WHERE k IN (SELECT k FROM u)) x",
        "SELECT count(*) FROM (SELECT t.k FROM t, u) x",
        "SELECT count(*) FROM (SELECT k FROM t) x, u",
        "SELECT count(*) FROM (SELECT k FROM t) x (b)",
        "SELECT count(b) FROM (SELECT k AS b FROM t) x",
        "SELECT count(b) FROM (SELECT k FROM t) x",
        "SELECT count(*) FROM (SELECT * FROM t) x WHERE c = 'x'",
        "SELECT DISTINCT * FROM (SELECT k FROM t) x",
        "SELECT x.* FROM (SELECT k FROM t) x LIMIT 1",
        "SELECT count(*) FROM (SELECT k FROM t) x WHERE b = 1",
        "SELECT count(*) FROM (SELECT * FROM (SELECT k FROM t) y WHERE b = 1) x",
        "SELECT count(k) FROM (SELECT k, k FROM t) x",
        "SELECT k AS b, count(*) FROM (SELECT k FROM t) x GROUP BY b",
        "SELECT count(k) FROM (SELECT *, k FROM t) x",
        "WITH w AS (SELECT * FROM t) SELECT count(*) FROM w JOIN w AS z ON w.k = z.k",
        "WITH w AS (SELECT k FROM t) SELECT (SELECT count(*) FROM w), (SELECT max(k) FROM w)",
        "WITH w (b) AS (SELECT k FROM t) SELECT count(b) FROM w",
    ],
)
def test_what_asks_for_something_else_is_left_alone(text: str) -> None:
    assert flat(text) is None
