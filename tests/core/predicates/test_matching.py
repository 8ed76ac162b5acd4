"""Evaluation of leaves over keys, with Python's operators as the oracle; every match lies within the bounds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.index.lookup import KeyStats
from hive_bitmap.core.predicates.nodes import (
    Compare,
    Constant,
    Implied,
    In,
    IsNull,
    Leaf,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
    Value,
)
from hive_bitmap.core.selecting.key_matches import key_matches, matches, may_hold

OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARROW: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(st.sampled_from("ab\ud7ff\ue000\U0010ffff"), max_size=3),
    pa.date32(): st.dates(date(1583, 1, 1)),
    pa.decimal128(5, 2): st.decimals(Decimal("-999.99"), Decimal("999.99"), places=2),
    pa.decimal128(38, 0): st.decimals(-(10**37), 10**37, places=0),
}


def true_of(leaf: Leaf, key: Value | None) -> bool:
    if isinstance(leaf, IsNull):
        return (key is None) != leaf.negated
    if key is None:
        return False
    match leaf:
        case Compare(_, op, value):
            return OPS[op](key, value)
        case In(_, values, negated):
            return (key in values) != negated
        case Prefix(_, prefix, negated):
            return str(key).startswith(prefix) != negated


@st.composite
def leaves_and_keys(draw: st.DrawFn) -> tuple[Leaf, pa.Array]:
    kind = draw(st.sampled_from(list(ARROW)))
    values = draw(st.lists(ARROW[kind], min_size=1, max_size=8, unique=True))
    some = tuple(draw(st.lists(st.sampled_from(values), min_size=1, unique=True)))
    negated = draw(st.booleans())
    leaves: list[Leaf] = [
        Compare("k", draw(st.sampled_from(list(OPS))), some[0]),
        In("k", some, negated),
        IsNull("k", negated),
    ]
    if kind == pa.string():
        leaves.append(Prefix("k", some[0][: draw(st.integers(0, 3))], negated))
    keys = draw(st.lists(st.sampled_from([*values, None]), max_size=12))
    return draw(st.sampled_from(leaves)), pa.array(keys, kind)


@settings(max_examples=400)
@given(leaves_and_keys())
def test_matches_are_those_of_python_and_their_row_group_may_hold_them(case: tuple[Leaf, pa.Array]) -> None:
    leaf, keys = case
    found = matches(leaf, keys).tolist()
    assert found == [true_of(leaf, key) for key in keys.to_pylist()]
    present = sorted(key for key in keys.to_pylist() if key is not None)
    low, high = (present[0], present[-1]) if present else (None, None)
    assert may_hold(leaf, KeyStats(low, high, nulls=keys.null_count > 0)) or not any(found)


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (Compare("k", "=", True), [False, True, False]),
        (Compare("k", "=", False), [True, False, False]),
        (In("k", (True, False), True), [False, False, False]),
    ],
)
def test_booleans(leaf: Leaf, expected: Sequence[bool]) -> None:
    assert matches(leaf, pa.array([False, True, None])).tolist() == expected


@pytest.mark.parametrize(
    ("leaf", "held", "not_held"),
    [
        (Compare("k", "=", 5), [(5, 5), (4, 6)], [(1, 4), (6, 9)]),
        (Compare("k", "<", 5), [(1, 2), (5, 9)], [(6, 9)]),
        (Compare("k", "<=", 5), [(5, 9)], [(6, 9)]),
        (Compare("k", ">=", 5), [(1, 5), (9, 9)], [(1, 4)]),
        (Compare("k", ">", 5), [(1, 5), (9, 9)], [(1, 4)]),
        (Compare("k", "<>", 5), [(5, 5), (1, 2)], []),
        (In("k", (5, 1, 3)), [(1, 1), (2, 3), (0, 9), (5, 6)], [(-1, 0), (2, 2), (4, 4), (6, 9)]),
        (In("k", (5, 1), True), [(5, 5), (2, 4)], []),
        (IsNull("k"), [], [(1, 2)]),
        (IsNull("k", True), [(1, 2)], []),
        (Prefix("k", "ab"), [("a", "ab"), ("abz", "b"), ("ac", "b")], [("a", "aa"), ("aca", "b")]),
        (Prefix("k", "a\U0010ffff"), [("a\U0010ffff", "x"), ("b", "x")], [("a", "az"), ("ba", "x")]),
        (Prefix("k", "\ud7ff"), [("\ue000", "\ue001")], [("\ue001", "\ue001"), ("a", "b")]),
        (Prefix("k", "\U0010ffff"), [("a", "\U0010ffffz")], [("a", "b")]),
        (Prefix("k", "ab", True), [("ab", "ab")], []),
        (SparkLeaf("f(k)", "k"), [(1, 2)], []),
        (Unknown("?", "because"), [(1, 2)], []),
        (Constant(True), [(1, 2)], []),
        (Constant(None), [], [(1, 2)]),
    ],
)
def test_row_groups_that_may_hold_a_match(
    leaf: Predicate, held: list[tuple[Any, Any]], not_held: list[tuple[Any, Any]]
) -> None:
    """A key right behind those with a prefix is held to be one of them."""
    for nulls in (False, True):
        assert all(may_hold(leaf, KeyStats(low, high, nulls)) for low, high in held)
        assert not any(may_hold(leaf, KeyStats(low, high, nulls)) for low, high in not_held if leaf != IsNull("k"))


def test_what_statistics_do_not_tell_may_be_held() -> None:
    assert may_hold(IsNull("k"), KeyStats(1, 2, nulls=True)) and not may_hold(IsNull("k"), KeyStats(1, 2, nulls=False))
    for leaf in (IsNull("k"), IsNull("k", True), Compare("k", "=", 5), In("k", (5, 1)), Prefix("k", "ab")):
        assert may_hold(leaf, KeyStats(None, None, nulls=False))


def test_an_empty_column_and_chunks() -> None:
    assert matches(Compare("k", "<", 5), pa.array([], pa.int32())).tolist() == []
    chunks = pa.chunked_array([[1, None], [7]], pa.int32())
    assert matches(In("k", (1, 7)), chunks).tolist() == [True, False, True]


def test_what_a_condition_implies_matches_the_keys_of_its_test() -> None:
    test, keys = Compare("k", ">=", 2), pa.array([None, 1, 2, 3])
    assert key_matches(Implied(test), keys, {}).tolist() == [False, False, True, True]
    assert may_hold(Implied(test), KeyStats(0, 2, nulls=True)) and not may_hold(
        Implied(test), KeyStats(0, 1, nulls=True)
    )
    leaf = SparkLeaf("f(k)", "k")
    assert key_matches(Implied(leaf), keys, {leaf: pa.array([3])}).tolist() == [False, False, False, True]
