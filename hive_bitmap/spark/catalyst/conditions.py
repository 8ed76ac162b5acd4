"""Convert a Catalyst condition to a predicate.

`Conditions.java` writes the condition as JSON. All functions here are pure, and need no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from hive_bitmap.core.columns import Column
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
    negate,
    simplify,
)

_EPOCH = date(1970, 1, 1).toordinal()
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Condition:
    """A predicate with the leaves that Spark has to evaluate.

    `expressions` maps each of these leaves to the number of its expression in the JVM.
    """

    predicate: Predicate
    expressions: Mapping[SparkLeaf, int]


def condition(tree: Sequence[Any], columns: Sequence[Column]) -> Condition:
    """Convert a condition over these columns to a predicate.

    The predicate is TRUE for the same rows as the condition. `tree` is the condition in the JSON form described in
    `Conditions.java`. Raises ValueError for any other form.

    >>> condition(["and", ["not", ["is null", "a"]], ["compare", "a", "<", "3"]], [Column("a", "int")]).predicate
    Compare(column='a', op='<', value=3)
    """
    reader = _TreeReader({column.name.lower(): column for column in columns})
    predicate = simplify(reader.node(tree))
    return Condition(predicate, reader.expressions)


class _TreeReader:
    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self.expressions: dict[SparkLeaf, int] = {}

    def node(self, tree: Sequence[Any]) -> Predicate:
        match tree:
            case ["and", *children]:
                return And(tuple(map(self.node, children)))
            case ["or", *children]:
                return Or(tuple(map(self.node, children)))
            case ["not", child]:
                return negate(self.node(child))
            case ["constant", value]:
                return Constant(value)
            case ["is null", name]:
                return IsNull(self._name(name))
            case ["compare", name, op, value]:
                return Compare(self._name(name), op, self._value(name, value))
            case ["in", name, *values]:
                distinct = dict.fromkeys(self._value(name, value) for value in values)
                return In(self._name(name), tuple(distinct)) if distinct else Constant(False)
            case ["prefix", name, text]:
                return Prefix(self._name(name), text)
            case ["expression", name, number, sql]:
                return self._expression(self._name(name), number, sql)
            case ["unknown", sql, reason]:
                return Unknown(sql, reason)
        raise ValueError(f"not a condition of the optimizer rule: {tree}")

    def _name(self, name: str) -> str:
        return self._columns[name.lower()].name

    def _value(self, name: str, value: Any) -> Value:
        match value:
            case bool():
                return value
            case ["date", days]:
                return date.fromordinal(_EPOCH + days)
        kind = self._columns[name.lower()].type
        if kind in _INTEGERS:
            return int(value)
        return Decimal(value) if kind.startswith("decimal") else str(value)

    def _expression(self, column: str, number: int, sql: str) -> SparkLeaf:
        leaf = SparkLeaf(sql, column)
        if leaf in self.expressions:  # a view evaluates the same text under the settings that it was created with
            leaf = SparkLeaf(f"{sql} ({number})", column)
        self.expressions[leaf] = number
        return leaf
