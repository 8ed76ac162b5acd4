"""Catalyst conditions as predicates: three-valued logic compared with sqlite3, values of all types, errors."""

from __future__ import annotations

import itertools
import sqlite3
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import (
    And,
    Compare,
    Constant,
    Implied,
    In,
    IsNull,
    Or,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
    leaves_of,
)
from hive_bitmap.spark.catalyst.scans import condition

COLUMNS = [
    Column("a", "int"),
    Column("B", "int"),
    Column("s", "string"),
    Column("d", "date"),
    Column("m", "decimal(5,2)"),
]
VALUES: tuple[int | None, ...] = (None, 1, 2, 3)
LEAVES = st.one_of(
    st.tuples(
        st.just("compare"), st.sampled_from("ab"), st.sampled_from(["=", "<", "<=", ">", ">="]), st.sampled_from("123")
    ),
    st.tuples(st.just("is null"), st.sampled_from("ab")),
    st.builds(lambda c, v: ("in", c, *v), st.sampled_from("ab"), st.lists(st.sampled_from("123"), min_size=1)),
    st.sampled_from([("constant", True), ("constant", False), ("constant", None)]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda kind, parts: (kind, *parts), st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)
        ),
        st.builds(lambda one: ("not", one), inner),
    ),
    max_leaves=8,
)


def lists(tree: Any) -> Any:
    return [lists(one) for one in tree] if isinstance(tree, tuple) else tree


def sql(tree: Any) -> str:
    match tree:
        case ["and" | "or" as word, *children]:
            return "(" + f" {word} ".join(map(sql, children)) + ")"
        case ["not", child]:
            return f"(not {sql(child)})"
        case ["constant", value]:
            return "null" if value is None else str(int(value))
        case ["is null", name]:
            return f"({name} is null)"
        case ["in", name, *values]:
            return f"({name} in ({', '.join(values)}))"
        case ["compare", name, op, value]:
            return f"({name} {op} {value})"
    raise AssertionError(tree)


def holds(node: Predicate, row: dict[str, int | None]) -> bool:
    match node:
        case And(children):
            return all(holds(child, row) for child in children)
        case Or(children):
            return any(holds(child, row) for child in children)
        case Constant(value):
            return value is True
        case IsNull(column, negated):
            return (row[column.lower()] is None) != negated
        case In(column, values, negated):
            found = row[column.lower()]
            return found is not None and (found in values) != negated
        case Compare(column, op, value):
            found = row[column.lower()]
            tests = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
            return found is not None and bool(getattr(found, tests[op])(value))
    raise AssertionError(node)


@given(TREES)
def test_the_rows_are_those_of_sqlite(tree: Any) -> None:
    found = condition(lists(tree), COLUMNS)
    with sqlite3.connect(":memory:") as database:
        for a, b in itertools.product(VALUES, VALUES):
            [[wanted]] = database.execute(f"SELECT {sql(lists(tree))} FROM (SELECT ? AS a, ? AS b)", (a, b))
            assert holds(found, {"a": a, "b": b}) == bool(wanted), (tree, a, b)
    database.close()


def test_values_have_the_types_of_their_columns() -> None:
    assert condition(["compare", "b", "=", "-7"], COLUMNS) == Compare("B", "=", -7)
    assert condition(["compare", "s", "<", "7"], COLUMNS) == Compare("s", "<", "7")
    assert condition(["compare", "d", ">", ["date", -1]], COLUMNS) == Compare("d", ">", date(1969, 12, 31))
    assert condition(["compare", "m", "=", "1.20"], COLUMNS) == Compare("m", "=", Decimal("1.20"))
    assert condition(["prefix", "s", "x'\n"], COLUMNS) == Prefix("s", "x'\n")


def test_expressions_that_read_alike_are_two() -> None:
    """Expressions of the same text may differ: one may come from a view that was created under other settings."""
    found = condition(["and", ["expression", "s", 0, "f(s)"], ["expression", "s", 1, "f(s)"]], COLUMNS)
    assert found == And((SparkLeaf("f(s)", "s"), SparkLeaf("f(s) (1)", "s")))
    assert [leaf.number for leaf in leaves_of(found) if isinstance(leaf, SparkLeaf)] == [0, 1]


def test_what_is_not_known_is_an_error_and_what_is_unknown_is_not() -> None:
    assert condition(["unknown", "a = b", "it tests 2 columns"], COLUMNS) == Unknown("a = b", "it tests 2 columns")
    assert condition(["implied", ["compare", "a", ">=", "1"]], COLUMNS) == Implied(Compare("a", ">=", 1))
    assert condition(["implied", ["expression", "s", 0, "f(s)"]], COLUMNS) == Implied(SparkLeaf("f(s)", "s"))
    assert isinstance(condition(["not", ["implied", ["in", "a", "1"]]], COLUMNS), Unknown)
    for several in (["or", ["compare", "a", "=", "1"], ["is null", "a"]], ["unknown", "a = b", "why"]):
        with pytest.raises(ValueError, match="not the test of a key"):
            condition(["implied", several], COLUMNS)
    with pytest.raises(ValueError, match="not a condition"):
        condition(["xor", "a"], COLUMNS)
