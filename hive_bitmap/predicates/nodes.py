"""What a predicate is: a small tree whose every node means *the rows where it is TRUE*.

There is no NOT: the parser pushes it to the leaves with SQL's three-valued logic, so AND is intersection and OR is
union, and no set of rows is ever complemented with its NULLs inside. Constant(None) is SQL's NULL: never TRUE, and
still never TRUE when negated. A leaf touches one column; Unknown is what nobody but Spark can tell, row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

Value = bool | int | str | Decimal | date  # of the column's type; a Decimal has its scale


@dataclass(frozen=True)
class And:
    """The rows of every child."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """The rows of any child."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True)
class Constant:
    """TRUE: all rows. FALSE and None (SQL's NULL): no row."""

    value: bool | None


@dataclass(frozen=True)
class Unknown:
    """A part that is not understood, for this reason: all rows may match."""

    text: str
    reason: str


@dataclass(frozen=True)
class SparkLeaf:
    """A deterministic condition on one column whose meaning only Spark knows, to be asked over its distinct keys.

    NULL is a key to be asked about like the others. If Spark raises, or answers with anything but a boolean, all rows
    may match. `text` is the source, without the table's name before the column's.
    """

    text: str
    column: str


@dataclass(frozen=True)
class Compare:
    """`column op value`; op is one of = <> < <= > >=, and the value lies in the range of the column's type."""

    column: str
    op: str
    value: Value


@dataclass(frozen=True)
class In:
    """The column is (negated: is not NULL and is not) one of the values; they are not NULL and not repeated."""

    column: str
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True)
class IsNull:
    """The column is (negated: is not) NULL."""

    column: str
    negated: bool = False


@dataclass(frozen=True)
class Prefix:
    """The text begins (negated: is not NULL and does not begin) with the prefix."""

    column: str
    prefix: str
    negated: bool = False


Leaf = Compare | In | IsNull | Prefix
Predicate = And | Or | Constant | Unknown | SparkLeaf | Leaf

TRUE, FALSE, NULL = Constant(True), Constant(False), Constant(None)
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conjunction(children: Iterable[Predicate]) -> Predicate:
    """AND of the children: flat, without constants and repetitions; one child stands for itself.

    >>> conjunction([Compare("a", "=", 1), Constant(True)])
    Compare(column='a', op='=', value=1)
    """
    parts = list(_flat(And, children))
    never = [part for part in parts if part in (FALSE, NULL)]
    if never:
        return FALSE if FALSE in never else NULL
    # a comparison is never TRUE of NULL, so IS NOT NULL beside it says nothing
    not_null = {part.column for part in parts if isinstance(part, (Compare, In, Prefix))}
    kept = [p for p in parts if p != TRUE and not (isinstance(p, IsNull) and p.negated and p.column in not_null)]
    return _one(And, dict.fromkeys(kept), TRUE)


def disjunction(children: Iterable[Predicate]) -> Predicate:
    """OR of the children: flat, without constants and repetitions, equalities of a column gathered into one In.

    >>> disjunction([Compare("a", "=", 1), Compare("a", "=", 2)])
    In(column='a', values=(1, 2), negated=False)
    """
    parts = list(_flat(Or, children))
    if TRUE in parts:
        return TRUE
    kept = dict.fromkeys(_gathered(part for part in parts if part not in (FALSE, NULL)))
    if any(isinstance(part, IsNull) and part.negated and replace(part, negated=False) in kept for part in kept):
        return TRUE
    return _one(Or, kept, NULL if NULL in parts else FALSE)


def negate(predicate: Predicate) -> Predicate:
    """NOT, pushed down to the leaves; right only for a tree that is exact in three-valued logic, before folding."""
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
            return Compare(column, OPPOSITE[op], value)
        case Unknown(text, _) | SparkLeaf(text, _):
            return replace(predicate, text=f"NOT ({text})")
        case _:
            return replace(predicate, negated=not predicate.negated)


def simplify(predicate: Predicate) -> Predicate:
    """The same rows by a smaller tree; what `parse` returns is already simple."""
    match predicate:
        case And(children):
            return conjunction(simplify(child) for child in children)
        case Or(children):
            return disjunction(simplify(child) for child in children)
        case _:
            return predicate


def leaves_of(predicate: Predicate) -> Iterator[Leaf | SparkLeaf | Unknown | Constant]:
    """The leaves, from left to right, repetitions included."""
    waiting = [predicate]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (And, Or)):
            waiting.extend(reversed(node.children))
        else:
            yield node


def columns_of(predicate: Predicate) -> set[str]:
    """The names of the columns that the leaves test; those inside Unknown are not known."""
    return {leaf.column for leaf in leaves_of(predicate) if not isinstance(leaf, (Unknown, Constant))}


def only_column(predicate: Predicate) -> str | None:
    """The one column, in lower case, that every leaf tests; None where there are several, or leaves without one."""
    columns = {None if isinstance(leaf, (Unknown, Constant)) else leaf.column.lower() for leaf in leaves_of(predicate)}
    return columns.pop() if len(columns) == 1 else None


def by_column(kind: type[And] | type[Or], children: Sequence[Predicate]) -> list[Predicate]:
    """The children of one AND or OR with those of one column put together, so that its index is looked up once."""
    alone: dict[str, list[Predicate]] = {}
    mixed: list[Predicate] = []
    for child in children:
        column = only_column(child)
        if column is None:
            mixed.append(child)
        else:
            alone.setdefault(column, []).append(child)
    return [kind(tuple(nodes)) if len(nodes) > 1 else nodes[0] for nodes in alone.values()] + mixed


def _flat(kind: type[And] | type[Or], children: Iterable[Predicate]) -> Iterator[Predicate]:
    for child in children:
        if isinstance(child, kind):
            yield from child.children
        else:
            yield child


def _one(kind: type[And] | type[Or], parts: Iterable[Predicate], empty: Constant) -> Predicate:
    children = tuple(parts)
    if len(children) < 2:
        return children[0] if children else empty
    return kind(children)


def _gathered(parts: Iterable[Predicate]) -> list[Predicate]:
    """The parts with the values of each column's equalities put together, at the place of the first of them."""
    others: dict[Predicate | str, Predicate] = {}
    values: dict[str, dict[Value, None]] = {}
    for part in parts:
        found = _equal_to(part)
        if found is None:
            others[part] = part
        else:
            others.setdefault(found[0], part)
            values.setdefault(found[0], {}).update(dict.fromkeys(found[1]))
    return [_equality(key, tuple(values[key])) if isinstance(key, str) else part for key, part in others.items()]


def _equal_to(part: Predicate) -> tuple[str, Sequence[Value]] | None:
    match part:
        case Compare(column, "=", value):
            return column, (value,)
        case In(column, values, False):
            return column, values
        case _:
            return None


def _equality(column: str, values: tuple[Value, ...]) -> Predicate:
    return Compare(column, "=", values[0]) if len(values) == 1 else In(column, values)
