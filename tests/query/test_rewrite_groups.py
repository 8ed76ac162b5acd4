"""Groups made from the counts of keys, against sqlite3 over the rows themselves."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.query.rewrite.groups import groups_of, key_sets
from hive_bitmap.query.rewrite.order import sort
from hive_bitmap.query.rewrite.shape import Shape, shape_of
from hive_bitmap.query.rewrite.words import read
from hive_bitmap.query.tally import COUNT

COLUMNS = (Column("k", "int"), Column("s", "string"), Column("b", "bigint"), Column("f", "double"))
TYPES = {"k": pa.int32(), "s": pa.string(), "b": pa.int64(), "f": pa.float64()}
Rows = Sequence[tuple[Any, ...]]


def rows_of(seed: int, number: int) -> Rows:
    rng = random.Random(seed)
    values: tuple[list[Any], ...] = ([None, 1, 2, 3, -7], ["a", "B", "é", None, ""], [2**40, -1, None], [None, 0.5])
    return [tuple(rng.choice(some) for some in values) for _ in range(number)]


def shape(text: str, *shown: str) -> Shape:
    return shape_of(read(text), COLUMNS, shown)


def counted(rows: Rows, names: Sequence[str]) -> pa.Table:
    """The counts of some columns' keys, as an index gives them."""
    places = [list(TYPES).index(name) for name in names]
    found = Counter(tuple(row[place] for place in places) for row in rows)
    columns = [pa.array([key[n] for key in found], TYPES[name]) for n, name in enumerate(names)]
    return pa.table([*columns, pa.array(list(found.values()), pa.int64())], [*names, COUNT])


def asked(database: sqlite3.Connection, table: pa.Table, text: str) -> list[tuple[Any, ...]]:
    """What sqlite answers over these rows, called t."""
    database.execute("DROP TABLE IF EXISTS t")
    database.execute(f"CREATE TABLE t ({', '.join(table.column_names)})")
    values = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * table.num_columns)})", values)
    return database.execute(text.replace("0L", "0")).fetchall()


@pytest.mark.parametrize("rows", [rows_of(1, 200), rows_of(2, 5), []], ids=["many", "few", "none"])
@pytest.mark.parametrize(
    ("items", "tail", "sets"),
    [
        ("count(*)", "", [()]),
        ("count(*), count(k), sum(k), avg(k), min(k), max(k), count(DISTINCT k)", "", ["k"]),
        ("min(k), max(s), count(DISTINCT b), sum(b), count(*)", "", ["k", "s", "b"]),
        ("s, min(k), max(k), count(DISTINCT b), avg(b), count(b)", "GROUP BY s", ["sk", "sb"]),
        ("s, k, count(*), min(s)", "GROUP BY s, k", ["sk"]),
        ("k, s, min(b), count(f)", "GROUP BY k, s", ["ksb", "ksf"]),
        ("s", "GROUP BY s", ["s"]),
        ("s, count(*)", "GROUP BY s ORDER BY count(*) DESC, s", ["s"]),
        ("s, min(b) m", "GROUP BY s ORDER BY m, t.s DESC", ["sb"]),
        ("k, sum(b)", "GROUP BY k ORDER BY sum(b) ASC NULLS LAST, k DESC NULLS FIRST", ["kb"]),
    ],
)  # fmt: skip
def test_groups_are_sqlites(items: str, tail: str, sets: list[str], rows: Rows) -> None:
    text = f"SELECT {items} FROM t {tail}"
    database = sqlite3.connect(":memory:")
    base = pa.table([pa.array([row[n] for row in rows], TYPES[name]) for n, name in enumerate(TYPES)], list(TYPES))
    wanted = asked(database, base, text)
    shown = [item.split(" ")[-1] for item in items.split(", ")]
    found = shape(text, *shown)
    assert key_sets(found) == [tuple(one) for one in sets]
    groups = groups_of(found, [counted(rows, one) for one in key_sets(found) or ()])
    ordered = sort(found, shown, groups.rows, groups.sorts)
    assert ordered is not None
    written = []
    for item in found.items:
        own = [one for one in found.aggregates if (one.start, one.end) == (item.start, item.end)]
        written.append(groups.written[own[0]] if own else found.words.source(item.start, item.end))
    answer = asked(database, ordered, f"SELECT {', '.join(written)} FROM t")
    assert answer == wanted if "ORDER BY" in tail else Counter(answer) == Counter(wanted)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FILTER (WHERE k > 1) n FROM t",
        "SELECT max(k + 1) n FROM t",
        "SELECT sum(DISTINCT k) n FROM t",
        "SELECT count(DISTINCT k, s) n FROM t",
        "SELECT count(*) n FROM t GROUP BY k + 1",
        "SELECT count(*) n FROM t HAVING n > 1",
        "SELECT DISTINCT k n FROM t",
    ],
)
def test_what_spark_has_to_group(text: str) -> None:
    assert key_sets(shape(text, "n")) is None


@pytest.mark.parametrize("by", ["1", "s || 'x'", "avg(k)", "f"])
def test_what_spark_has_to_sort(by: str) -> None:
    found = shape(f"SELECT s, f, avg(k) FROM t GROUP BY s, f ORDER BY {by}", "s", "f", "avg(k)")
    groups = groups_of(found, [counted(rows_of(3, 50), "sfk")])
    assert sort(found, ["s", "f", "avg(k)"], groups.rows, groups.sorts) is None


def test_sums_that_might_overflow_are_not_made() -> None:
    found = shape("SELECT sum(b) FROM t", "sum(b)")
    with pytest.raises(Unsupported, match="sum of b"):
        groups_of(found, [pa.table({"b": pa.array([2**62], pa.int64()), COUNT: pa.array([2], pa.int64())})])
