"""Random queries with the rows left out that `demands` and `links` say do not matter: nothing is missing.

The oracle is DuckDB's answer to the same query over the whole tables. No index and no Spark takes part, so thousands
are tried in a short time; `--long N` tries N hundred more, `--seed S` begins with query S.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping

import duckdb
import pytest

from hive_bitmap.columns import Column
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.query.names import Names
from hive_bitmap.query.predicates import parse, to_sql
from hive_bitmap.query.rewrite.demands import ScanDemands, scans
from hive_bitmap.query.rewrite.links import links
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.tree import Scan
from hive_bitmap.query.rewrite.understood import mentioned, predicate
from hive_bitmap.query.rewrite.words import Words, read
from tests.integration import random_queries
from tests.query import stars
from tests.query.stars import COLUMNS, in_duckdb

USUAL, HUNDRED = 400, 100
MOST = 20_000  # rows of an answer; of larger ones it is left open which these are


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A few hundred rows of each table."""
    with stars.connected() as connection:
        yield connection


def test_no_row_is_missing(duck: duckdb.DuckDBPyConnection, pytestconfig: pytest.Config) -> None:
    first, count = pytestconfig.getoption("--seed"), USUAL + HUNDRED * pytestconfig.getoption("--long")
    done: Counter[str] = Counter()
    wrong = [told for seed in range(first, first + count) if (told := _check(duck, seed, done))]
    told = "\n\n".join([*wrong[:20], f"{len(wrong)} wrong of {dict(done)}"])
    assert not wrong, f'{told}\nagain: make test T="tests/query/test_rewrite_random.py --seed S"'
    assert done["narrowed"] > count / 3 and done["linked"] > count / 40, done


def _check(duck: duckdb.DuckDBPyConnection, seed: int, done: Counter[str]) -> str:
    """What is wrong with the narrowed query; empty if nothing is, or there is nothing to compare."""
    text = random_queries.nested(random.Random(seed))
    try:
        wanted = _rows(duck, text)
        if wanted.total() == MOST:
            return ""
    except duckdb.Error:
        done["not DuckDB's"] += 1
        return ""
    try:
        changed, linked = _narrowed(duck, text)
    except HiveBitmapError:
        done["not understood"] += 1
        return ""
    done["narrowed"] += changed != text
    done["linked"] += linked
    if changed == text:
        return ""
    try:
        found = _rows(duck, changed)
    except duckdb.Error as e:
        return f"seed {seed}: {e}\n{text}\n{changed}"
    missing, surplus = list((wanted - found).items())[:3], list((found - wanted).items())[:3]
    return f"seed {seed}: missing {missing}, surplus {surplus}\n{text}\n{changed}" if found != wanted else ""


def _rows(duck: duckdb.DuckDBPyConnection, text: str) -> Counter[str]:
    return Counter(map(repr, duck.execute(f"SELECT * FROM ({in_duckdb(text)}) LIMIT {MOST}").fetchall()))


def _narrowed(duck: duckdb.DuckDBPyConnection, text: str) -> tuple[str, bool]:
    """The query over the rows of each scan that its demands leave, and whether a key list is among these."""
    words = read(text)
    found = sorted(scans(statement(words), _look), key=lambda one: one.scan.start)
    of_tables = [one for one in found if one.scan.name[-1] in COLUMNS]
    conditions = {one.scan: _condition(duck, one) for one in of_tables}
    lists = _lists(words, of_tables, conditions)
    pieces, copied = [], 0
    for one in of_tables:
        tests = [test for test in (conditions[one.scan], *lists.get(one.scan, ())) if test]
        if tests:
            shown = ", ".join(mentioned(words, COLUMNS[one.scan.name[-1]], whole=one.star))
            narrow = f"(SELECT {shown} FROM {one.scan.name[-1]} WHERE {' AND '.join(tests)})"
            pieces += [text[copied : one.scan.start], narrow, "" if one.scan.aliased else f" AS {one.scan.alias}"]
            copied = one.scan.end
    return "".join([*pieces, text[copied:]]), bool(lists)


def _look(scan: Scan) -> list[Column] | None:
    return COLUMNS.get(scan.name[-1])


def _condition(duck: duckdb.DuckDBPyConnection, one: ScanDemands) -> str:
    """What an index would be asked, without qualifiers; nothing if that fails, as all rows are taken then."""
    table = one.scan.name[-1]
    text = predicate(one.demands, COLUMNS[table], one.scan.alias)
    condition = "" if text is None else f"({to_sql(parse(text, COLUMNS[table], one.scan.alias))})"
    try:
        duck.execute(in_duckdb(f"SELECT 1 FROM {table} WHERE {condition or 'true'}"))
    except duckdb.Error:
        return ""
    return condition


def _lists(words: Words, found: list[ScanDemands], conditions: Mapping[Scan, str]) -> dict[Scan, list[str]]:
    """The conditions that links to scans with conditions make; a scan gives lists or takes them, as in `dimensions`."""
    lists: dict[Scan, list[str]] = {}
    given: set[Scan] = set()
    for one in found:
        for link in [] if one.scan in given else links(words, one, found):
            other = link.other.scan
            column, key = _column(one.scan, link.path), _column(other, link.other_path)
            if other in lists or not conditions.get(other) or column is None or key is None or column.type != key.type:
                continue
            inner = f"SELECT {key.name} FROM {other.name[-1]} WHERE {conditions[other]}"
            lists.setdefault(one.scan, []).append(f"{column.name} IN ({inner})")
            given.add(other)
    return lists


def _column(scan: Scan, path: tuple[str, ...]) -> Column | None:
    return Names(COLUMNS[scan.name[-1]], scan.alias).resolve(path) if scan.name[-1] in COLUMNS else None
