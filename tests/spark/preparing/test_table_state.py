"""Partitions that a predicate leaves, and their typed values: sqlite3 is the oracle of pruning; no Spark, no file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import TRUE, And, Compare, Constant, In, IsNull, Or, Predicate, Prefix, SparkLeaf
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.preparing.request import NoEngine
from hive_bitmap.spark.preparing.snapshot import comparable, prune_partitions, typed_values

BASE = Table(
    database="d",
    name="t",
    kind="MANAGED",
    columns=(Column("k", "int"),),
    partition_columns=(Column("Y", "int"), Column("s", "string")),
)
TEXTS = ("a", "ab", "b", None)
PARTITIONS = [(year, text) for year in ("1", "2", "10", None) for text in TEXTS]
LEAVES: dict[Predicate, str] = {
    Compare("Y", "=", 1): "Y = 1",
    Compare("Y", "<", 10): "Y < 10",
    Compare("Y", ">=", 2): "Y >= 2",
    In("Y", (1, 10)): "Y IN (1, 10)",
    IsNull("Y"): "Y IS NULL",
    Compare("s", "=", "ab"): "s = 'ab'",
    Prefix("s", "a"): "substr(s, 1, 1) = 'a'",
    IsNull("s"): "s IS NULL",
}
Tree = tuple[Predicate, str]


def combined(kind: type[And] | type[Or], word: str) -> Any:
    def of(parts: Sequence[Tree]) -> Tree:
        return kind(tuple(node for node, _ in parts)), "(" + f" {word} ".join(text for _, text in parts) + ")"

    return of


TREES = st.recursive(
    st.sampled_from(list(LEAVES.items())),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(combined(And, "AND")),
        st.lists(inner, min_size=1, max_size=3).map(combined(Or, "OR")),
    ),
    max_leaves=6,
)


NOTHING = NoEngine()


@given(TREES)
def test_partitions_are_pruned_as_sqlite_does(tree: Tree) -> None:
    predicate, text = tree
    kept, left, typed = prune_partitions(BASE, PARTITIONS, predicate, NOTHING)
    rows = [(number, None if year is None else int(year), text) for number, (year, text) in enumerate(PARTITIONS)]
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE p (n, Y INT, s TEXT)")
        database.executemany("INSERT INTO p VALUES (?, ?, ?)", rows)
        wanted = [number for (number,) in database.execute(f"SELECT n FROM p WHERE {text} ORDER BY n")]
    assert kept == wanted
    assert left == [TRUE] * len(kept)
    assert typed["Y"].to_pylist() == [rows[number][1] for number in kept]


def test_what_tests_other_columns_is_left_over() -> None:
    data = Compare("k", "=", 5)
    kept, left, _ = prune_partitions(BASE, PARTITIONS, Or((And((Compare("Y", "=", 1), data)), IsNull("Y"))), NOTHING)
    assert [PARTITIONS[number][0] for number in kept] == ["1"] * 4 + [None] * 4
    assert left == [data] * 4 + [TRUE] * 4


@pytest.mark.parametrize("tells", [True, False])
def test_spark_evaluates_what_it_alone_knows_over_the_existing_values(tells: bool) -> None:
    asked = []

    class Spark(NoEngine):
        def satisfying(self, leaf: SparkLeaf, column: Column, keys: pa.Array) -> pa.Array | None:
            asked.append((leaf.text, column.name, sorted(keys.drop_null().to_pylist())))
            return pa.array([10], pa.int32()) if tells else None

    leaf = SparkLeaf("sqrt(Y) > 3", "y")
    kept, left, _ = prune_partitions(BASE, PARTITIONS, leaf, Spark())
    assert asked == [("sqrt(Y) > 3", "Y", [1, 2, 10])]
    if tells:
        assert ({PARTITIONS[number][0] for number in kept}, set(left)) == ({"10"}, {TRUE})
    else:
        assert len(kept) == len(PARTITIONS)
        assert not any(isinstance(one, Constant) for one in left)


def test_a_table_without_partitions_is_one() -> None:
    flat = Table(database="d", name="t", kind="MANAGED", columns=(Column("k", "int"),))
    kept, left, _ = prune_partitions(flat, [()], Compare("k", "=", 1), NOTHING)
    assert (kept, left) == ([0], [Compare("k", "=", 1)])


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("int", "7", 7),
        ("int", "007", 7),
        ("int", "-0", 0),
        ("tinyint", "128", None),  # not canonical: what Spark makes of it is its own affair
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "9223372036854775808", None),
        ("int", " 7", None),
        ("int", "7.0", None),
        ("date", "2026-02-01", date(2026, 2, 1)),
        ("date", "2026-2-1", None),
        ("date", "0999-01-01", None),
        ("boolean", "true", True),
        ("boolean", "TRUE", None),
        ("string", "", ""),
        ("decimal(5,2)", "1.20", None),
        ("timestamp", "2026-01-01 00:00:00", None),
    ],
)
def test_values_are_typed_only_where_there_is_no_doubt(type: str, text: str, value: object) -> None:
    typed = typed_values([Column("p", type)], [(text,), (None,)])
    assert typed.num_rows == 2
    if value is None:
        assert "p" not in typed.column_names
    else:
        assert typed["p"].to_pylist() == [value, None]


def test_a_column_of_which_one_value_is_in_doubt_is_left_out_and_others_stay() -> None:
    typed = typed_values([Column("a", "int"), Column("b", "int")], [("1", "1"), ("x", "2")])
    assert typed.column_names == ["", "b"]


def test_values_in_doubt_are_compared_as_text_and_others_by_type() -> None:
    table = replace(BASE, partition_columns=(Column("day", "date"), Column("n", "int")))
    texts = [("2026-02-01", "01"), ("0001-01-01", "1"), ("2026-2-1", None), (None, "x")]
    assert comparable(table, texts) == [(date(2026, 2, 1), 1), ("0001-01-01", 1), ("2026-2-1", None), (None, "x")]
    assert comparable(replace(BASE, partition_columns=()), [()]) == [()]
