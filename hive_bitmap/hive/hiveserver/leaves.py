"""Convert tests of columns to exact nodes, which can be negated.

A node is exact if it is TRUE, FALSE and NULL for the same values as the test. For example, over a tinyint column, `tiny
< 1000` is TRUE for every value and NULL for NULL. So the node of this test is `tiny IS NOT NULL OR NULL`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import NULL, And, Compare, In, IsNull, Or, Predicate, Prefix, negate
from hive_bitmap.hive.hiveserver.literals import EngineOnly, Literal, OutOfRange, value_of

_OPS = {"==": "=", "!=": "<>", "!>": "<=", "!<": ">="}  # other spellings of operators


def node_of(column: Column, operator: str, literals: Sequence[Literal]) -> Predicate:
    """Convert the test `column operator literals` to a node.

    Raises EngineOnly if only an engine can evaluate the test, for example because Spark may lose digits when it
    compares column and literal.
    """
    match operator:
        case "IS UNKNOWN" if column.type != "boolean":
            raise EngineOnly
        case "IS NULL" | "IS UNKNOWN":
            return IsNull(column.name)
        case "IS TRUE" | "IS FALSE":
            return _null_safe_equal(column, Literal(operator == "IS TRUE"))
        case "IS DISTINCT FROM":
            return negate(_null_safe_equal(column, literals[0]))
        case "BETWEEN":
            return And((_compare(column, ">=", literals[0]), _compare(column, "<=", literals[1])))
        case "IN":
            return _in(column, literals)
        case "LIKE":
            return _like(column, literals[0])
        case "<=>":
            return _null_safe_equal(column, literals[0])
        case _:
            return _compare(column, _OPS.get(operator, operator), literals[0])


def _compare(column: Column, op: str, literal: Literal) -> Predicate:
    if literal.value is None:
        return NULL
    value = value_of(literal, column.type)
    if isinstance(value, OutOfRange):
        return _if_not_null(column, op in (("<>", "<", "<=") if value is OutOfRange.ABOVE else ("<>", ">", ">=")))
    if not isinstance(value, bool):
        return Compare(column.name, op, value)
    if op not in ("=", "<>"):
        raise EngineOnly
    return Compare(column.name, "=", value == (op == "="))


def _null_safe_equal(column: Column, literal: Literal) -> Predicate:
    """Convert the test `column <=> literal`, which is never NULL.

    A NULL in the column equals only the literal NULL.
    """
    if literal.value is None:
        return IsNull(column.name)
    return And((_compare(column, "=", literal), IsNull(column.name, negated=True)))


def _if_not_null(column: Column, value: bool) -> Predicate:
    """Return a node that is NULL for the key NULL, and `value` for other keys."""
    return Or((IsNull(column.name, negated=True), NULL)) if value else And((IsNull(column.name), NULL))


def _in(column: Column, literals: Sequence[Literal]) -> Predicate:
    values = [value_of(literal, column.type) for literal in literals if literal.value is not None]
    in_range = dict.fromkeys(value for value in values if not isinstance(value, OutOfRange))
    with_null = len(values) < len(literals)
    if not in_range:
        return NULL if with_null else _if_not_null(column, False)
    in_values = In(column.name, tuple(in_range))
    return Or((in_values, NULL)) if with_null else in_values


def _like(column: Column, pattern: Literal) -> Predicate:
    """Convert LIKE 'text' and LIKE 'text%' over a string column.

    Raises EngineOnly for any other pattern, which only the engine can evaluate.
    """
    if pattern.value is None:
        return NULL
    form = re.fullmatch(r"([^%_]*)(%?)", value) if isinstance(value := value_of(pattern, column.type), str) else None
    if form is None:
        raise EngineOnly
    return Prefix(column.name, form[1]) if form[2] else Compare(column.name, "=", form[1])
