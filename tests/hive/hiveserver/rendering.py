"""Predicates as SQL text, in which the tests compare trees."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

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
    Value,
)


def to_sql(predicate: Predicate) -> str:
    """Return the SQL of a predicate, with names and strings quoted as Spark reads them.

    >>> to_sql(Or((Compare("a", "<", 1), Prefix("b c", "x", True))))
    "(a < 1 OR `b c` NOT LIKE 'x%')"
    """
    match predicate:
        case And(children):
            return f"({' AND '.join(map(to_sql, children))})"
        case Or(children):
            return f"({' OR '.join(map(to_sql, children))})"
        case Constant(value):
            return "NULL" if value is None else str(value).upper()
        case Unknown(text, _) | SparkLeaf(text, _):
            return text
        case Compare(column, op, value):
            return f"{_name(column)} {op} {_literal(value)}"
        case In(column, values, negated):
            return f"{_name(column)} {'NOT ' * negated}IN ({', '.join(map(_literal, values))})"
        case IsNull(column, negated):
            return f"{_name(column)} IS {'NOT ' * negated}NULL"
        case Prefix(column, prefix, negated):
            return f"{_name(column)} {'NOT ' * negated}LIKE {_literal(prefix + '%')}"


def _name(column: str) -> str:
    return column if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", column) else f"`{column.replace('`', '``')}`"


def _literal(value: Value) -> str:
    match value:
        case bool():
            return str(value).upper()
        case str():
            return f"'{value}'"  # the parser accepts no string with a quote or a backslash
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)
