"""Write conditions in HiveQL that all servers understand alike.

A condition may be wider than the predicate, because the client tests the rows from the server again, but is never
narrower. A part of a predicate that a server might misread is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from hive_bitmap.core.predicates.nodes import And, Compare, Constant, In, IsNull, Or, Predicate, Prefix, Value
from hive_bitmap.core.table_info import quote

MOST_VALUES = 1000  # values in one IN


def condition(node: Predicate, types: Mapping[str, str]) -> str:
    """Return a condition that is TRUE wherever a predicate is TRUE.

    The result is "" if the condition would restrict nothing. `types` has the types of the columns, by lower-case name.

    >>> condition(And((Compare("a", ">", 1), Prefix("b", "x"), Compare("b", "<>", "é"))), {"a": "int", "b": "string"})
    "`a` > 1 AND `b` LIKE 'x%'"
    """
    match node:
        case Constant(value):
            return "" if value is True else "1 = 0"
        case And(children):
            return " AND ".join(f"({part})" if " OR " in part else part for part in _each(children, types) if part)
        case Or(children):
            parts = _each(children, types)
            return " OR ".join(f"({part})" for part in parts) if all(parts) else ""
        case Compare(column, op, value):
            text = literal(value, types[column.lower()])
            return text and f"{quote(column)} {op} {text}"
        case In(column, values, negated):
            listed = [literal(value, types[column.lower()]) for value in values]
            usable = all(listed) and len(listed) <= MOST_VALUES
            return f"{quote(column)} {'NOT ' * negated}IN ({', '.join(listed)})" if usable else ""
        case IsNull(column, negated):
            return f"{quote(column)} IS {'NOT ' * negated}NULL"
        case Prefix(column, prefix, negated):
            text = literal(prefix + "%", types[column.lower()]) if prefix else ""
            return text and f"{quote(column)} {'NOT ' * negated}LIKE {text}"
        case _:
            return ""


def literal(value: Value, type: str) -> str:
    """Return a value as a HiveQL literal of this type; "" if servers might misread it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            plain = value.isascii() and value.isprintable() and not set(value) & set("'\\\"$;")
            return f"'{value}'" if plain else ""
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"CAST('{value:f}' AS {type})"
        case _:
            return str(value)


def _each(children: tuple[Predicate, ...], types: Mapping[str, str]) -> list[str]:
    return [condition(child, types) for child in children]
