"""Evaluate a predicate over one column.

The functions tell which keys of an index match, and which row groups may hold such keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index.lookup import KeyStats
from hive_bitmap.core.predicates.matching import interval, matches
from hive_bitmap.core.predicates.nodes import And, Constant, Or, Predicate, SparkLeaf, Unknown

Flags = npt.NDArray[np.bool_]
# The distinct keys, in the column's Arrow type, for which Spark evaluated a leaf to TRUE.
MatchingKeys = Mapping[SparkLeaf, pa.Array]


def key_matches(node: Predicate, keys: pa.Array, matching_keys: MatchingKeys) -> Flags:
    """Return for each key whether a predicate may be TRUE for it.

    The predicate is over one column; a key may be NULL. The flag is exact unless Spark's answer for a leaf is unknown.
    """
    match node:
        case Constant(value):
            return np.full(len(keys), value is True)
        case And(children):
            return reduce(np.logical_and, (key_matches(child, keys, matching_keys) for child in children))
        case Or(children):
            return reduce(np.logical_or, (key_matches(child, keys, matching_keys) for child in children))
        case SparkLeaf():
            return among(keys, matching_keys[node]) if node in matching_keys else np.ones(len(keys), bool)
        case Unknown():
            return np.ones(len(keys), bool)
        case _:
            return matches(node, keys)


def among(keys: pa.Array, values: pa.Array) -> Flags:
    """Return for each key whether it is in `values`.

    NULL equals NULL, and NaN equals NaN.
    """
    if pa.types.is_floating(keys.type):
        bits = pa.int32() if keys.type.bit_width == 32 else pa.int64()
        keys, values = keys.view(bits), values.view(bits)
    flags: npt.NDArray[np.bool_] = pc.is_in(keys, value_set=values).to_numpy(zero_copy_only=False)
    return flags


def may_hold(node: Predicate, stats: KeyStats) -> bool:
    """Return whether a row group may hold a matching key.

    Its statistics decide. A key matches if the predicate is TRUE for it.
    """
    match node:
        case Constant(value):
            return value is True
        case And(children):
            return all(may_hold(child, stats) for child in children)
        case Or(children):
            return any(may_hold(child, stats) for child in children)
    bounds = interval(node)
    if stats.low is None or (bounds.nulls and stats.nulls):
        return True
    if bounds.points is not None:
        first = bisect_left(bounds.points, stats.low)
        return first < len(bounds.points) and bounds.points[first] <= stats.high
    low_enough = bounds.low is None or bounds.low <= stats.high
    return low_enough and (bounds.high is None or bounds.high >= stats.low)
