"""Random aggregates over one table, worked out from the counts of its keys: the answer is that over all rows.

The oracle is DuckDB, which counts the keys as an index would, too. No index and no Spark takes part, so thousands are
tried in a short time; `--long N` tries N hundred more, `--seed S` begins with query S.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.query.names import Names
from hive_bitmap.query.rewrite.answers import _texts
from hive_bitmap.query.rewrite.groups import key_sets
from hive_bitmap.query.rewrite.nested import flattened, nests
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.shape import clauses, keys_in, may_be_counted, shape_of
from hive_bitmap.query.rewrite.words import read
from hive_bitmap.query.tally import COUNT
from tests.integration import random_queries
from tests.integration.random_queries import STAR
from tests.query import stars
from tests.query.stars import COLUMNS, in_duckdb

USUAL, HUNDRED = 400, 100


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A few hundred rows of each table; NULLs are sorted as by Spark."""
    with stars.connected() as connection:
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        yield connection


def test_answers_from_counts_are_those_from_rows(duck: duckdb.DuckDBPyConnection, pytestconfig: pytest.Config) -> None:
    first, count = pytestconfig.getoption("--seed"), USUAL + HUNDRED * pytestconfig.getoption("--long")
    done: Counter[str] = Counter()
    wrong = [told for seed in range(first, first + count) for told in _check(duck, seed, done)]
    told = "\n\n".join([*wrong[:20], f"{len(wrong)} wrong of {dict(done)}"])
    assert not wrong, f'{told}\nagain: make test T="tests/query/test_answers_random.py --seed S"'
    assert done["answered"] > count / 4 and done["nested"] > count / 40, done


def _check(duck: duckdb.DuckDBPyConnection, seed: int, done: Counter[str]) -> Iterator[str]:
    """What is wrong with the answers from counts."""
    text = random_queries.of_one_table(random.Random(seed), STAR)
    try:
        wanted, shown = _asked(duck, text)
    except duckdb.Error:
        done["not DuckDB's"] += 1
        return
    try:
        answers = list(_answers(duck, text, shown))
    except HiveBitmapError:
        done["left to Spark"] += 1
        return
    except duckdb.Error:  # of the counts that an index would give: it evaluates conditions in another order there
        done["not DuckDB's"] += 1
        return
    done["answered"] += bool(answers)
    done["nested"] += bool(answers) and "FROM (SELECT" in text
    for answer, rows in answers:
        duck.register("counted_rows", rows)
        try:
            found, _ = _asked(duck, answer)
        except duckdb.Error as e:
            yield f"seed {seed}: {e}\n{text}\n{answer}"
            continue
        if found != wanted:
            yield f"seed {seed}: missing {wanted - found}, surplus {found - wanted}\n{text}\n{answer}"


def _answers(duck: duckdb.DuckDBPyConnection, text: str, shown: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Each text that may take the place of this one, and the rows that it is over."""
    words = read(text)
    for scan, nest in nests(statement(words)).items():
        words = read(flattened(words, nest, scan.name[0], COLUMNS[scan.name[0]]))
    if not may_be_counted(words):
        return
    table = words.name(clauses(words)["FROM"][0] + 1)
    columns = COLUMNS.get(table, [])
    keys = keys_in(words, columns)
    shape = shape_of(words, columns, shown)
    assert set(shape.keys) == set(keys), text
    where = _where(shape.words, shape.clauses, Names(columns, shape.alias))
    names, sets = tuple(key.name for key in keys), key_sets(shape)
    for apart in dict.fromkeys((tuple(sets or [names]), (names,))):
        counts = [_counts(duck, table, one, where) for one in apart]
        for made in _texts(shape, counts, shown, grouped=sets is not None):
            yield f"SELECT {made.items} FROM counted_rows{made.rest}", made.rows


def _where(words: Any, spans: dict[str, tuple[int, int]], names: Names) -> str:
    at, end = spans.get("WHERE", (0, 0))
    return f" WHERE {names.unqualified(words.tokens[at + 1 : end], words.text)}" if at < end else ""


def _counts(duck: duckdb.DuckDBPyConnection, table: str, keys: Sequence[str], where: str) -> pa.Table:
    """How often each key occurs; without keys there is one row, or none where there is nothing to count."""
    shown = ", ".join([*keys, f"count(*) AS {COUNT}"])
    by = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(*) > 0"
    return duck.sql(in_duckdb(f"SELECT {shown} FROM {table}{where}{by}")).to_arrow_table()


def _asked(duck: duckdb.DuckDBPyConnection, text: str) -> tuple[Counter[str], list[str]]:
    """The rows, their numbers rounded, and the names of the columns."""
    found = duck.execute(in_duckdb(re.sub(r"\bAS DECIMAL\(\d+, ?(\d+)\)", r"AS DECIMAL(38, \1)", text)))
    names = [column[0] for column in found.description]
    return Counter(repr([_rounded(value) for value in row]) for row in found.fetchall()), names


def _rounded(value: Any) -> Any:
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return round(float(value), 3) if number else value
