"""Define the nodes of a predicate, which is a tree of conditions.

A node stands for *the rows where it is TRUE*. There is no node for NOT: the parser pushes NOT down to the leaves by
SQL's three-valued logic. So AND is intersection and OR is union. No set of rows is complemented, because a complement
would contain the rows where the condition is NULL. Constant(None) is SQL's NULL, which is TRUE for no row, even when it
is negated. A leaf tests one column. Unknown is a condition that only Spark can evaluate, row by row. Implied is a
condition that only Spark can evaluate, but that implies the test of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import cached_property

Value = bool | int | str | Decimal | date  # a value of the column's type; a Decimal has the column's scale


@dataclass(frozen=True)
class And:
    """The rows that are in every child."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """The rows that are in any child."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True)
class Constant:
    """All rows if TRUE; no row if FALSE or None (SQL's NULL)."""

    value: bool | None


@dataclass(frozen=True)
class Unknown:
    """A condition that no index can evaluate, so that any row may match.

    `text` is the SQL of the condition. `reason` says why no index can evaluate it.
    """

    text: str
    reason: str


@dataclass(frozen=True)
class SparkLeaf:
    """A condition on one column that Spark evaluates on the keys.

    The condition is deterministic. Spark evaluates the condition over the distinct keys of the column, including NULL.
    If Spark raises an error, or the result is not a boolean, any row may match. `text` is the SQL of the condition,
    without a table name before the column. `number` is the number of the condition in the question of the JVM; None if
    the question does not have this condition.
    """

    text: str
    column: str
    number: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Compare:
    """A comparison `column op value`.

    `op` is = <> < <= > or >=, and the value is in the range of the column's type.
    """

    column: str
    op: str
    value: Value


@dataclass(frozen=True)
class In:
    """The column is one of the values.

    If `negated`, the column is neither NULL nor one of the values. The values are distinct, and no value is NULL.
    """

    column: str
    values: tuple[Value, ...]
    negated: bool = False

    @cached_property
    def sorted_values(self) -> tuple[Value, ...]:
        """The values in ascending order.

        The result is cached, because each row group of a shard is compared with the values.
        """
        return tuple(sorted(self.values))


@dataclass(frozen=True)
class IsNull:
    """The column is NULL; if `negated`, the column is not NULL."""

    column: str
    negated: bool = False


@dataclass(frozen=True)
class Prefix:
    """The string column starts with the prefix.

    If `negated`, the column is not NULL and does not start with the prefix.
    """

    column: str
    prefix: str
    negated: bool = False


Leaf = Compare | In | IsNull | Prefix


@dataclass(frozen=True)
class Implied:
    """A condition that only Spark can evaluate, and from which `test` follows.

    `test` is TRUE for all rows for which the condition is TRUE, and possibly for other rows. So `test` leaves rows out,
    but never selects exactly the matching rows, and the negation of `test` says nothing about the negated condition.
    """

    test: Leaf | SparkLeaf

    @property
    def column(self) -> str:
        """The column that `test` tests."""
        return self.test.column


Predicate = And | Or | Constant | Unknown | SparkLeaf | Implied | Leaf

TRUE, FALSE, NULL = Constant(True), Constant(False), Constant(None)
_NEGATED_OP = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conjunction(children: Iterable[Predicate]) -> Predicate:
    """Return AND of the children, simplified.

    Nested ANDs are flattened. TRUE, duplicates, and IS NOT NULL beside a stricter test of the column are removed. If a
    child is FALSE or NULL, the result is FALSE or NULL. A single child is returned unchanged.

    >>> conjunction([Compare("a", "=", 1), Constant(True)])
    Compare(column='a', op='=', value=1)
    """
    parts = list(_flat(And, children))
    never = [part for part in parts if part in (FALSE, NULL)]
    if never:
        return FALSE if FALSE in never else NULL
    # These leaves are not TRUE for NULL, so IS NOT NULL beside them is redundant.
    not_null = {part.column for part in parts if isinstance(part, (Compare, In, Prefix))}
    needed = [p for p in parts if p != TRUE and not (isinstance(p, IsNull) and p.negated and p.column in not_null)]
    return _combined(And, dict.fromkeys(needed), TRUE)


def disjunction(children: Iterable[Predicate]) -> Predicate:
    """Return OR of the children, simplified.

    Nested ORs are flattened, FALSE, NULL and duplicates are removed, and the equalities of a column become one In. The
    result is TRUE if a child is TRUE, or if a column is tested for both NULL and NOT NULL.

    >>> disjunction([Compare("a", "=", 1), Compare("a", "=", 2)])
    In(column='a', values=(1, 2), negated=False)
    """
    parts = list(_flat(Or, children))
    if TRUE in parts:
        return TRUE
    branches = dict.fromkeys(_merged_equalities(part for part in parts if part not in (FALSE, NULL)))
    if any(isinstance(part, IsNull) and part.negated and replace(part, negated=False) in branches for part in branches):
        return TRUE
    return _combined(Or, branches, NULL if NULL in parts else FALSE)


def negate(predicate: Predicate) -> Predicate:
    """Return NOT of a predicate, pushed down to the leaves.

    The predicate must be exact in three-valued logic. So negate a predicate before `simplify` is applied: `simplify`
    keeps the rows for which the predicate is TRUE, but does not keep FALSE and NULL apart.
    """
    match predicate:
        case And(children):
            return Or(tuple(negate(child) for child in children))
        case Or(children):
            return And(tuple(negate(child) for child in children))
        case Constant(value):
            return NULL if value is None else Constant(not value)
        case Compare(column, "=", bool() as value):
            return Compare(column, "=", not value)
        case Compare(column, op, value):
            return Compare(column, _NEGATED_OP[op], value)
        case Implied(test):
            text = test.text if isinstance(test, SparkLeaf) else str(test)
            return Unknown(f"NOT ({text})", "it only implies its test, so its negation may hold for any row")
        case Unknown(text, reason):
            return Unknown(f"NOT ({text})", reason)
        case SparkLeaf(text, column):
            return SparkLeaf(f"NOT ({text})", column)
        case _:
            return replace(predicate, negated=not predicate.negated)


def simplify(predicate: Predicate) -> Predicate:
    """Return a smaller tree that is TRUE for the same rows.

    The result of `parse` is already simplified.
    """
    match predicate:
        case And(children):
            return conjunction(simplify(child) for child in children)
        case Or(children):
            return disjunction(simplify(child) for child in children)
        case _:
            return predicate


def leaves_of(predicate: Predicate) -> Iterator[Leaf | SparkLeaf | Implied | Unknown | Constant]:
    """Yield the leaves from left to right, duplicates included."""
    waiting = [predicate]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (And, Or)):
            waiting.extend(reversed(node.children))
        else:
            yield node


def depth_of(predicate: Predicate) -> int:
    """Return the number of AND and OR nodes in the deepest branch."""
    depth, level = 0, [predicate]
    while level := [child for node in level if isinstance(node, (And, Or)) for child in node.children]:
        depth += 1
    return depth


def columns_of(predicate: Predicate) -> set[str]:
    """Return the names of the columns that the leaves test.

    The columns of an Unknown are not known, and are left out.
    """
    return {leaf.column for leaf in leaves_of(predicate) if not isinstance(leaf, (Unknown, Constant))}


def only_column(predicate: Predicate) -> str | None:
    """Return the only column that the leaves test, in lower case.

    Return None if the leaves test several columns, or if a leaf tests no column.
    """
    columns = {None if isinstance(leaf, (Unknown, Constant)) else leaf.column.lower() for leaf in leaves_of(predicate)}
    return columns.pop() if len(columns) == 1 else None


def by_column(kind: type[And] | type[Or], children: Sequence[Predicate]) -> list[Predicate]:
    """Combine children of a node that test the same column.

    Each such group of `children` becomes one child, so that the index of a column is looked up only once for the node.
    `kind` is the class of the node, And or Or. Children that test several columns are returned unchanged.
    """
    single: dict[str, list[Predicate]] = {}
    mixed: list[Predicate] = []
    for child in children:
        column = only_column(child)
        if column is None:
            mixed.append(child)
        else:
            single.setdefault(column, []).append(child)
    return [kind(tuple(nodes)) if len(nodes) > 1 else nodes[0] for nodes in single.values()] + mixed


def _flat(kind: type[And] | type[Or], children: Iterable[Predicate]) -> Iterator[Predicate]:
    for child in children:
        if isinstance(child, kind):
            yield from child.children
        else:
            yield child


def _combined(kind: type[And] | type[Or], parts: Iterable[Predicate], empty: Constant) -> Predicate:
    children = tuple(parts)
    if len(children) < 2:
        return children[0] if children else empty
    return kind(children)


def _merged_equalities(parts: Iterable[Predicate]) -> list[Predicate]:
    """Merge the equalities of each column into one node.

    `parts` are the parts of an OR. The node takes the position of the first equality of the column.
    """
    merged: dict[Predicate | str, Predicate] = {}
    values: dict[str, dict[Value, None]] = {}
    for part in parts:
        equality = _equal_to(part)
        if equality is None:
            merged[part] = part
        else:
            column, equal = equality
            merged.setdefault(column, part)
            values.setdefault(column, {}).update(dict.fromkeys(equal))
    return [_equality(key, tuple(values[key])) if isinstance(key, str) else part for key, part in merged.items()]


def _equal_to(part: Predicate) -> tuple[str, Sequence[Value]] | None:
    """Return the column and values of an equality.

    An equality is `column = value` or `column IN values`. Return None for other nodes.
    """
    match part:
        case Compare(column, "=", value):
            return column, (value,)
        case In(column, values, False):
            return column, values
        case _:
            return None


def _equality(column: str, values: tuple[Value, ...]) -> Predicate:
    return Compare(column, "=", values[0]) if len(values) == 1 else In(column, values)
