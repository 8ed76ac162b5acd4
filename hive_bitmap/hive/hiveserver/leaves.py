"""Parse one leaf of a predicate: the tokens between two ANDs or ORs.

Leaves of these forms are evaluated without an engine: `column op literal`, `literal op column`, BETWEEN, IN, LIKE
'prefix%', IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM, and a boolean column alone. They are read token by token, and a
leaf with remaining tokens has another form, so operator precedence cannot be mistaken.

The resulting node is exact in three-valued logic, so that it can be negated: `tiny < 1000`, over a tinyint column, is
TRUE for every value and NULL for NULL, and becomes `tiny IS NOT NULL OR NULL`. Any other leaf becomes Unknown: all rows
may satisfy it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import (
    NULL,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Or,
    Predicate,
    Prefix,
    Unknown,
    Value,
    negate,
)
from hive_bitmap.core.predicates.tokens import Token
from hive_bitmap.hive.hiveserver.column_names import Names
from hive_bitmap.hive.hiveserver.literals import Literal, OutOfRange, literal_at, value_of

_OPS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", "!>": "<=", ">": ">", ">=": ">=", "!<": ">="}
_MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}


def leaf(tokens: Sequence[Token], text: str, names: Names) -> Predicate:
    """Parse the tokens of a leaf to a node.

    The node is exact in three-valued logic. `text` is the whole predicate, which contains the source of an Unknown.
    """
    native = _native(_LeafReader(tokens, names))
    return Unknown(text[tokens[0].start : tokens[-1].end], "only an engine evaluates it") if native is None else native


@dataclass
class _LeafReader:
    """A cursor over the tokens of a leaf."""

    tokens: Sequence[Token]
    names: Names
    at: int = field(default=0)

    @property
    def done(self) -> bool:
        return self.at == len(self.tokens)

    def key(self) -> str:
        return "" if self.done else self.tokens[self.at].key

    def take(self, key: str) -> bool:
        """Step over this word or symbol if it comes next.

        Return whether it did.
        """
        is_next = self.key() == key
        self.at += is_next
        return is_next

    def take_any(self, keys: Sequence[str]) -> str | None:
        key = self.key()
        return key if key and key in keys and self.take(key) else None

    def operand(self) -> Column | Literal | None:
        """Read a column or a literal, with or without parentheses.

        Return None if neither comes next.
        """
        opened = 0
        while self.take("("):
            opened += 1
        value_and_position = (
            None if self.done else literal_at(self.tokens, self.at) or self.names.column_at(self.tokens, self.at)
        )
        if value_and_position is None:
            return None
        value, self.at = value_and_position
        return value if all(self.take(")") for _ in range(opened)) else None

    def literal(self) -> Literal | None:
        operand = self.operand()
        return operand if isinstance(operand, Literal) else None

    def literals(self) -> list[Literal] | None:
        """Read `(x, y, ..)`; None if it has anything but literals."""
        if not self.take("("):
            return None
        read_so_far: list[Literal] = []
        while (value := self.literal()) is not None:
            read_so_far.append(value)
            if self.take(")"):
                return read_so_far
            if not self.take(","):
                return None
        return None


def _native(reader: _LeafReader) -> Predicate | None:
    """Return the node of a leaf.

    Return None for a leaf that only an engine evaluates.
    """
    left = reader.operand()
    if isinstance(left, Column):
        node = _of_column(left, reader)
    elif left is not None:
        node = _of_literal(left, reader)
    else:
        node = None
    return node if reader.done else None


def _of_column(column: Column, reader: _LeafReader) -> Predicate | None:
    if reader.done:
        return Compare(column.name, "=", True) if column.type == "boolean" else None
    if reader.take("IS"):
        negated = reader.take("NOT")
        node = _is(column, reader)
    elif op := reader.take_any((*_OPS, "<=>")):
        right = reader.literal()
        return None if right is None else _compare(column, _OPS.get(op, op), right)
    else:
        negated = reader.take("NOT")
        node = _between_in_or_like(column, reader)
    return negate(node) if negated and node is not None else node


def _of_literal(left: Literal, reader: _LeafReader) -> Predicate | None:
    """Parse a leaf that begins with a literal.

    Its forms are TRUE, FALSE or NULL alone, `literal op column`, and `1 = 1`.
    """
    if reader.done:
        return Constant(left.value) if left.value is None or isinstance(left.value, bool) else None
    op = reader.take_any((*_OPS, "<=>"))
    right = reader.operand() if op else None
    if op is None or right is None:
        return None
    op = _OPS.get(op, op)
    if isinstance(right, Column):
        return _compare(right, _MIRROR[op], left)
    same_type = type(left.value) is type(right.value) is int
    return Constant(left.value == right.value) if same_type and op == "=" else None


def _is(column: Column, reader: _LeafReader) -> Predicate | None:
    if reader.take("NULL"):
        return IsNull(column.name)
    if reader.take("DISTINCT") and reader.take("FROM"):
        right = reader.literal()
        same = None if right is None else _compare(column, "<=>", right)
        return None if same is None else negate(same)
    if column.type != "boolean":
        return None
    if reader.take("UNKNOWN"):
        return IsNull(column.name)
    value = reader.take_any(("TRUE", "FALSE"))
    return None if value is None else _compare(column, "<=>", Literal(value == "TRUE"))


def _between_in_or_like(column: Column, reader: _LeafReader) -> Predicate | None:
    if reader.take("BETWEEN"):
        low = reader.literal()
        high = reader.literal() if reader.take("AND") else None
        return None if low is None or high is None else _between(column, low, high)
    if reader.take("IN"):
        values = reader.literals()
        return None if values is None else _in(column, values)
    if reader.take("LIKE"):
        pattern = reader.literal()
        return None if pattern is None else _like(column, pattern)
    return None


def _compare(column: Column, op: str, literal: Literal) -> Predicate | None:
    if op == "<=>":
        return _null_safe_equal(column, literal)
    if literal.value is None:
        return NULL
    value = value_of(literal, column.type)
    if value is None or (isinstance(value, bool) and op not in ("=", "<>")):
        return None
    if isinstance(value, OutOfRange):
        return _if_not_null(column, op in (("<>", "<", "<=") if value is OutOfRange.ABOVE else ("<>", ">", ">=")))
    if isinstance(value, bool):
        return Compare(column.name, "=", value == (op == "="))
    return Compare(column.name, op, value)


def _null_safe_equal(column: Column, literal: Literal) -> Predicate | None:
    """Parse `<=>`, which is never NULL.

    For a NULL of the column it is FALSE, unless the literal is NULL.
    """
    if literal.value is None:
        return IsNull(column.name)
    equal = _compare(column, "=", literal)
    return None if equal is None else And((equal, IsNull(column.name, negated=True)))


def _if_not_null(column: Column, value: bool) -> Predicate:
    """Return a node that is `value` for all non-NULL keys.

    It is NULL for NULL.
    """
    return Or((IsNull(column.name, negated=True), NULL)) if value else And((IsNull(column.name), NULL))


def _between(column: Column, low: Literal, high: Literal) -> Predicate | None:
    above, below = _compare(column, ">=", low), _compare(column, "<=", high)
    return None if above is None or below is None else And((above, below))


def _in(column: Column, literals: Sequence[Literal]) -> Predicate | None:
    values: dict[Value, None] = {}
    for literal in literals:
        if literal.value is None:
            continue
        value = value_of(literal, column.type)
        if value is None:
            return None
        if not isinstance(value, OutOfRange):
            values[value] = None
    with_null = any(literal.value is None for literal in literals)
    if not values:
        return NULL if with_null else _if_not_null(column, False)
    in_values = In(column.name, tuple(values))
    return Or((in_values, NULL)) if with_null else in_values


def _like(column: Column, pattern: Literal) -> Predicate | None:
    """Parse LIKE 'text' and LIKE 'text%' over a string column.

    Other patterns are left to the engine.
    """
    if pattern.value is None:
        return NULL
    form = re.fullmatch(r"([^%_]*)(%?)", value) if isinstance(value := value_of(pattern, column.type), str) else None
    if form is None:
        return None
    return Prefix(column.name, form[1]) if form[2] else Compare(column.name, "=", form[1])
