"""Trees of predicates: NOT, and the smaller tree, are TRUE for the rows for which SQLite says so."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.predicates.nodes import (
    FALSE,
    NULL,
    TRUE,
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
    by_column,
    columns_of,
    conjunction,
    disjunction,
    leaves_of,
    negate,
    only_column,
    simplify,
)

VALUES = {"a": [None, 0, 1, 2], "b": [None, 0, 1], "s": [None, "", "x", "xy", "y"]}
UNKNOWN, LEAF = Unknown("u", "why"), SparkLeaf("hash(a) = 1", "a")
A, B = Compare("a", "=", 1), Compare("b", "<", 2)


@pytest.fixture(scope="module")
def table() -> Iterator[sqlite3.Connection]:
    """All combinations of the values of three columns, and one of booleans."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (a, b, s, f)")
        rows = product(*VALUES.values(), [None, True, False])
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        yield connection
    connection.close()


def sql(node: Predicate) -> str:
    match node:
        case And(children) | Or(children):
            word = " AND " if isinstance(node, And) else " OR "
            return f"({word.join(map(sql, children))})"
        case Constant(value):
            return {True: "TRUE", False: "FALSE", None: "NULL"}[value]
        case Compare(column, op, value):
            return f"{column} {op} {literal(value)}"
        case In(column, values, negated):
            return f"{column} {'NOT ' * negated}IN ({', '.join(map(literal, values))})"
        case IsNull(column, negated):
            return f"{column} IS {'NOT ' * negated}NULL"
        case Prefix(column, prefix, negated):
            return f"substr({column}, 1, {len(prefix)}) {'<>' if negated else '='} {literal(prefix)}"
    raise AssertionError(node)


def literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def truths(table: sqlite3.Connection, text: str) -> list[bool | None]:
    return [row[0] if row[0] is None else bool(row[0]) for row in table.execute(f"SELECT {text} FROM t ORDER BY rowid")]


OPS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
NUMBERS, TEXTS = st.integers(0, 3), st.sampled_from(["", "x", "xy", "z"])
EXACT = st.one_of(
    st.builds(Compare, st.sampled_from("ab"), OPS, NUMBERS),
    st.builds(Compare, st.just("s"), OPS, TEXTS),
    st.builds(Compare, st.just("f"), st.just("="), st.booleans()),
    st.builds(In, st.just("a"), st.lists(NUMBERS, min_size=1, unique=True).map(tuple), st.booleans()),
    st.builds(In, st.just("s"), st.lists(TEXTS, min_size=1, unique=True).map(tuple), st.booleans()),
    st.builds(IsNull, st.sampled_from("abs"), st.booleans()),
    st.builds(Prefix, st.just("s"), TEXTS, st.booleans()),
    st.sampled_from([TRUE, FALSE, NULL]),
)


def trees(leaves: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaves,
        lambda inner: st.builds(
            lambda kind, children: kind(tuple(children)),
            st.sampled_from([And, Or]),
            st.lists(inner, min_size=1, max_size=4),
        ),
        max_leaves=8,
    )


ANY = trees(st.one_of(EXACT, st.sampled_from([UNKNOWN, LEAF, SparkLeaf("x", "S"), Implied(A), Implied(LEAF)])))


def nodes_of(predicate: Predicate) -> Iterator[Predicate]:
    yield predicate
    if isinstance(predicate, (And, Or)):
        for child in predicate.children:
            yield from nodes_of(child)


@given(trees(EXACT))
@settings(max_examples=200)
def test_negation_is_that_of_three_valued_logic(table: sqlite3.Connection, predicate: Predicate) -> None:
    negated = negate(predicate)
    assert truths(table, sql(negated)) == truths(table, f"NOT ({sql(predicate)})")
    assert negate(negated) == predicate


@given(trees(EXACT))
@settings(max_examples=200)
def test_the_smaller_tree_is_true_for_the_same_rows(table: sqlite3.Connection, predicate: Predicate) -> None:
    smaller = simplify(predicate)
    was, now = (truths(table, sql(one)) for one in (predicate, smaller))
    assert [truth is True for truth in now] == [truth is True for truth in was]


@given(ANY)
@settings(max_examples=200)
def test_the_smaller_tree_is_flat_and_has_neither_constants_nor_duplicates(predicate: Predicate) -> None:
    smaller = simplify(predicate)
    assert simplify(smaller) == smaller
    assert len(list(leaves_of(smaller))) <= len(list(leaves_of(predicate)))
    assert columns_of(smaller) <= columns_of(predicate)
    for node in nodes_of(smaller):
        if isinstance(node, (And, Or)):
            assert len(node.children) == len(set(node.children)) > 1
            assert not any(isinstance(child, (type(node), Constant)) for child in node.children)
        if isinstance(node, Or):
            equal = [child.column for child in node.children if equality(child)]
            assert len(equal) == len(set(equal))


def equality(node: Predicate) -> bool:
    return (isinstance(node, Compare) and node.op == "=") or (isinstance(node, In) and not node.negated)


@pytest.mark.parametrize(
    ("predicate", "negated"),
    [
        (UNKNOWN, Unknown("NOT (u)", "why")),
        (LEAF, SparkLeaf("NOT (hash(a) = 1)", "a")),
        (
            Implied(SparkLeaf("a > 1", "a")),
            Unknown("NOT (a > 1)", "it only implies its test, so its negation may hold for any row"),
        ),
        (NULL, NULL),
        (Compare("f", "=", True), Compare("f", "=", False)),
        (And((A, UNKNOWN)), Or((Compare("a", "<>", 1), Unknown("NOT (u)", "why")))),
    ],
)
def test_negation_of_what_only_spark_evaluates(predicate: Predicate, negated: Predicate) -> None:
    assert negate(predicate) == negated


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ([], TRUE),
        ([A], A),
        ([A, TRUE], A),
        ([A, NULL], NULL),
        ([A, NULL, FALSE], FALSE),
        ([UNKNOWN, FALSE], FALSE),
        ([A, And((B, A))], And((A, B))),
        ([IsNull("a", True), A], A),  # A is not TRUE for NULL
        ([IsNull("a", True), B], And((IsNull("a", True), B))),
        ([IsNull("a", True), LEAF], And((IsNull("a", True), LEAF))),  # a function may be TRUE for NULL
        ([IsNull("a"), A], And((IsNull("a"), A))),
        ([Implied(A), A, Implied(A)], And((Implied(A), A))),
    ],
)
def test_a_conjunction(children: list[Predicate], expected: Predicate) -> None:
    assert conjunction(children) == expected


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ([], FALSE),
        ([A], A),
        ([A, FALSE, NULL], A),
        ([FALSE, NULL], NULL),
        ([FALSE, FALSE], FALSE),
        ([UNKNOWN, TRUE], TRUE),
        ([A, Or((B, A))], Or((A, B))),
        ([IsNull("a"), B, IsNull("a", True)], TRUE),
        ([IsNull("a"), IsNull("b", True)], Or((IsNull("a"), IsNull("b", True)))),
        ([A, B, In("a", (1, 2)), Compare("b", "=", 0)], Or((In("a", (1, 2)), B, Compare("b", "=", 0)))),
        ([In("a", (1, 2), True), A], Or((In("a", (1, 2), True), A))),
        ([LEAF, UNKNOWN, LEAF], Or((LEAF, UNKNOWN))),
        ([Implied(A), A, Compare("a", "=", 2)], Or((Implied(A), In("a", (1, 2))))),
    ],
)
def test_a_disjunction(children: list[Predicate], expected: Predicate) -> None:
    assert disjunction(children) == expected


@given(ANY)
def test_leaves_come_from_left_to_right(predicate: Predicate) -> None:
    leaves = [node for node in nodes_of(predicate) if not isinstance(node, (And, Or))]
    assert list(leaves_of(predicate)) == leaves
    tested = [leaf.column for leaf in leaves if not isinstance(leaf, (Unknown, Constant))]
    assert columns_of(predicate) == set(tested)
    alone = {column.lower() for column in tested} if len(tested) == len(leaves) else set()
    assert only_column(predicate) == (alone.pop() if len(alone) == 1 else None)


def test_leaves_of_a_tree_too_deep_for_recursion() -> None:
    deep: Predicate = A
    for _ in range(100_000):
        deep = And((deep, B))
    assert Counter(leaves_of(deep)) == {A: 1, B: 100_000} and columns_of(deep) == {"a", "b"}
    while isinstance(deep, And):  # it is freed from the top, for Python frees it by recursion
        deep = deep.children[0]


@given(st.lists(ANY, min_size=1, max_size=6), st.sampled_from([And, Or]))
def test_what_tests_one_column_alone_is_put_together(children: list[Predicate], kind: type[And] | type[Or]) -> None:
    found = by_column(kind, children)
    alone = [only_column(child) for child in children]
    expected = []
    for column in dict.fromkeys(column for column in alone if column is not None):
        mine = tuple(child for child, one in zip(children, alone, strict=True) if one == column)
        expected.append(kind(mine) if len(mine) > 1 else mine[0])
    assert found == expected + [child for child, one in zip(children, alone, strict=True) if one is None]
