"""Conditions in HiveQL: one that is sent to a server may be wider than the predicate, and is never narrower."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.predicates.nodes import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Or,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
)
from hive_bitmap.core.selecting.key_matches import key_matches
from hive_bitmap.hive.hiveserver.hiveql import condition

KEYS: dict[str, tuple[pa.DataType, list[object]]] = {
    "int": (pa.int32(), [None, -(2**31), -1, 0, 1, 7, 2**31 - 1]),
    "string": (pa.string(), [None, "", "a", "ab", "a b", "é", "it's", "a\\b", "b%", "$x", "日本", "a;b", 'q"']),
    "decimal(7,2)": (pa.decimal128(7, 2), [None, *map(Decimal, ("-12345.67", "-0.50", "0.00", "0.01", "99999.99"))]),
    "date": (pa.date32(), [None, date(1600, 1, 1), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
    "boolean": (pa.bool_(), [None, True, False]),
}


def leaves(type: str) -> st.SearchStrategy[Predicate]:
    values = st.sampled_from([value for value in KEYS[type][1] if value is not None])
    found: list[st.SearchStrategy[Predicate]] = [
        st.builds(IsNull, st.just("k"), st.booleans()),
        st.just(Constant(True)),
        st.just(Constant(None)),
        st.just(Unknown("f(k)", "not understood")),
        st.just(SparkLeaf("k % 2 = 1", "k")),
    ]
    found.append(st.builds(Compare, st.just("k"), st.sampled_from(["=", "<>"] if type == "boolean" else OPS), values))
    found.append(st.builds(In, st.just("k"), st.lists(values, min_size=1, unique=True).map(tuple), st.booleans()))
    if type == "string":
        prefixes = st.sampled_from(["", "a", "a ", "é", "it"])
        found.append(st.builds(Prefix, st.just("k"), prefixes, st.booleans()))
    return st.one_of(found)


OPS = ["=", "<>", "<", "<=", ">", ">="]


@st.composite
def typed_predicates(draw: st.DrawFn) -> tuple[str, Predicate]:
    type = draw(st.sampled_from(sorted(KEYS)))
    children = st.lists(leaves(type), min_size=2, max_size=3).map(tuple)
    node = st.one_of(leaves(type), st.builds(And, children), st.builds(Or, children))
    return type, draw(st.one_of(node, st.builds(Or, st.lists(node, min_size=2, max_size=3).map(tuple))))


@settings(max_examples=60)
@given(typed_predicates())
def test_a_condition_loses_no_key(typed: tuple[str, Predicate]) -> None:
    """DuckDB evaluates the condition that would be sent to a server."""
    type, predicate = typed
    keys = pa.array(KEYS[type][1], KEYS[type][0])
    wanted = np.flatnonzero(key_matches(predicate, keys, {}))
    said = condition(predicate, {"k": type}).replace("`", '"') or "TRUE"
    rows = pa.table({"k": keys, "number": range(len(keys))})  # noqa: F841 - DuckDB reads the variable
    found = {number for (number,) in duckdb.sql(f"SELECT number FROM rows WHERE {said}").fetchall()}
    assert set(wanted.tolist()) <= found


def test_a_plain_condition_is_sent_whole() -> None:
    predicate = Or((And((Compare("k", ">", 1), Compare("k", "<", 5))), IsNull("k")))
    assert condition(predicate, {"k": "int"}) == "(`k` > 1 AND `k` < 5) OR (`k` IS NULL)"
    assert condition(And((predicate, Compare("k", "<>", 3))), {"k": "int"}).startswith("((`k` > 1 AND")
