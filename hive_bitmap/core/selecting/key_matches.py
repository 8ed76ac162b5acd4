"""Evaluate a predicate over one column.

The evaluation selects the keys that match, and the row groups that may hold matching keys. Leaves are evaluated over
arrays of keys, in Arrow and numpy. Row groups are skipped by the bounds of the keys that a leaf can match.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hive_bitmap.core.index.lookup import KeyStats
from hive_bitmap.core.predicates.nodes import (
    And,
    Compare,
    Constant,
    Implied,
    In,
    IsNull,
    Leaf,
    Or,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
)

_ARROW = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
Flags = npt.NDArray[np.bool_]
# The distinct keys, in the column's Arrow type, for which Spark evaluated a leaf to TRUE.
MatchingKeys = Mapping[SparkLeaf, pa.Array]


def matches(leaf: Leaf, keys: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return for each key whether the leaf is TRUE, not FALSE or NULL.

    Keys have the column's Arrow type (`key_values.arrow_type`), and may be NULL. The values of the leaf must fit this
    type, as values from the parser and from the optimizer rule do. Raises ArrowInvalid for other values.
    """
    match leaf:
        case IsNull(_, negated):
            is_match = pc.is_valid(keys) if negated else pc.is_null(keys)
        case Compare(_, op, value):
            is_match = _ARROW[op](keys, pa.scalar(value, keys.type))
        case In(_, values, negated):
            is_match = pc.is_in(keys, value_set=pa.array(values, keys.type))
            is_match = pc.and_(pc.invert(is_match), pc.is_valid(keys)) if negated else is_match
        case Prefix(_, prefix, negated):
            is_match = pc.starts_with(keys, prefix)
            is_match = pc.invert(is_match) if negated else is_match
    return np.asarray(pc.fill_null(is_match, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _after(prefix: str) -> str | None:
    """Return the least string after all strings with a prefix.

    Return None if there is no such string.
    """
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def key_matches(node: Predicate, keys: pa.Array, matching_keys: MatchingKeys) -> Flags:
    """Return for each key whether a predicate over one column may be TRUE.

    Keys may be NULL. The result is exact, except for leaves that only Spark can evaluate and that are not in
    `matching_keys`.
    """
    match node:
        case Constant(value):
            return np.full(len(keys), value is True)
        case And(children):
            return reduce(np.logical_and, (key_matches(child, keys, matching_keys) for child in children))
        case Or(children):
            return reduce(np.logical_or, (key_matches(child, keys, matching_keys) for child in children))
        case Implied(test):
            return key_matches(test, keys, matching_keys)
        case SparkLeaf():
            return among(keys, matching_keys[node]) if node in matching_keys else np.ones(len(keys), bool)
        case Unknown():
            return np.ones(len(keys), bool)
        case _:
            return matches(node, keys)


def among(keys: pa.Array, values: pa.Array) -> Flags:
    """Return for each key whether `values` has the key.

    NULL equals NULL, and NaN equals NaN.
    """
    if pa.types.is_floating(keys.type):
        bits = pa.int32() if keys.type.bit_width == 32 else pa.int64()
        keys, values = keys.view(bits), values.view(bits)
    flags: npt.NDArray[np.bool_] = pc.is_in(keys, value_set=values).to_numpy(zero_copy_only=False)
    return flags


def may_hold(node: Predicate, stats: KeyStats) -> bool:
    """Return whether a row group may hold a key that matches.

    A key matches if the predicate is TRUE for the key. `stats` are the statistics of the row group. Strings are in the
    order of their UTF-8 bytes, which is also the order of Python's strings and of Parquet's statistics.
    """
    match node:
        case Constant(truth):
            return truth is True
        case And(children):
            return all(may_hold(child, stats) for child in children)
        case Or(children):
            return any(may_hold(child, stats) for child in children)
        case Implied(test):
            return may_hold(test, stats)
    low, high = stats.low, stats.high
    if low is None:  # the statistics have no bounds
        return True
    match node:
        case IsNull(_, False):
            return stats.nulls
        case Compare(_, "=", value):
            return bool(low <= value <= high)
        case Compare(_, ">" | ">=", value):
            return bool(value <= high)
        case Compare(_, "<" | "<=", value):
            return bool(low <= value)
        case In(_, _, False):
            values = node.sorted_values
            first = bisect_left(values, low)
            return first < len(values) and values[first] <= high
        case Prefix(_, prefix, False):
            after = _after(prefix)
            return bool(prefix <= high and (after is None or low <= after))
    return True  # `<>`, a negated leaf, or a leaf that only Spark can evaluate
