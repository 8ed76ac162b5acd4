"""Evaluate leaves over arrays of keys, in Arrow and numpy.

The bounds of the keys that a leaf can match are computed here, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hive_bitmap.core.predicates.nodes import Compare, In, IsNull, Leaf, Predicate, Prefix, Value

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


@dataclass(frozen=True)
class Interval:
    """Bounds of the keys that a leaf can match.

    Keys match from `low` to `high`, inclusive, and NULL only if `nulls`. None means no bound on that side. If `points`
    is not None, only these keys can match; they are sorted, and empty if only NULL can. Bounds are values of the
    column's type. Strings are in the order of their UTF-8 bytes, which is also the order of Python's strings and of
    Parquet's statistics.
    """

    low: Value | None = None
    high: Value | None = None
    nulls: bool = False
    points: tuple[Value, ...] | None = None


ANY_KEY = Interval(nulls=True)


def matches(leaf: Leaf, keys: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return for each key whether the leaf is TRUE for it.

    The n keys may be NULL, and TRUE means neither FALSE nor NULL. The keys have the column's Arrow type
    (`key_values.arrow_type`). The values of the leaf must fit that type, as those from `parse` and from the optimizer
    rule do; ArrowInvalid is raised for a value that does not.
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


def interval(leaf: Predicate) -> Interval:
    """Return bounds of the keys that can match.

    They are ANY_KEY for a SparkLeaf, and for a node that is not a leaf.
    """
    match leaf:
        case IsNull(_, negated):
            return Interval() if negated else Interval(nulls=True, points=())
        case Compare(_, "=", value):
            return Interval(value, value, points=(value,))
        case Compare(_, op, value):
            return Interval(low=value if op[0] == ">" else None, high=value if op in ("<", "<=") else None)
        case In(negated=False):
            points = leaf.sorted_values
            return Interval(points[0], points[-1], points=points)
        case Prefix(_, prefix, False):
            return Interval(prefix, _after(prefix))
        case In() | Prefix():
            return Interval()
        case _:
            return ANY_KEY


def _after(prefix: str) -> str | None:
    """Return the least string that follows all strings with a prefix.

    Returns None if there is no such string.
    """
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
