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
    Prefix,
    SparkLeaf,
    Unknown,
    Value,
)
from hive_bitmap.core.selecting.key_matches import ALL_KEYS, Interval, interval, key_matches, matches, may_hold

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
def test_matches_are_those_of_python_and_lie_in_the_interval(case: tuple[Leaf, pa.Array]) -> None:
    leaf, keys = case
    found = matches(leaf, keys).tolist()
    assert found == [true_of(leaf, key) for key in keys.to_pylist()]
    bounds = interval(leaf)
    assert all(inside(key, bounds) for key, match in zip(keys.to_pylist(), found, strict=True) if match)


def inside(key: Any, bounds: Interval) -> bool:
    if key is None:
        return bounds.nulls
    low = bounds.low is None or key >= bounds.low
    high = bounds.high is None or key <= bounds.high
    return low and high and (bounds.points is None or key in bounds.points)


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
    ("leaf", "expected"),
    [
        (Compare("k", "=", 5), Interval(5, 5, points=(5,))),
        (Compare("k", "<", 5), Interval(high=5)),
        (Compare("k", ">=", 5), Interval(low=5)),
        (Compare("k", "<>", 5), Interval()),
        (In("k", (5, 1, 3)), Interval(1, 5, points=(1, 3, 5))),
        (In("k", (5, 1), True), Interval()),
        (IsNull("k"), Interval(nulls=True, points=())),
        (IsNull("k", True), Interval()),
        (Prefix("k", "ab"), Interval("ab", "ac")),
        (Prefix("k", "a\U0010ffff"), Interval("a\U0010ffff", "b")),
        (Prefix("k", "\ud7ff"), Interval("\ud7ff", "\ue000")),
        (Prefix("k", "\U0010ffff"), Interval("\U0010ffff", None)),
        (Prefix("k", "ab", True), Interval()),
    ],
)
def test_bounds(leaf: Leaf, expected: Interval) -> None:
    assert interval(leaf) == expected


@pytest.mark.parametrize("node", [SparkLeaf("f(k)", "k"), Unknown("?", "because"), Constant(True)])
def test_of_what_is_not_ours_any_key_may_match(node: SparkLeaf | Unknown | Constant) -> None:
    assert interval(node) == ALL_KEYS


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
