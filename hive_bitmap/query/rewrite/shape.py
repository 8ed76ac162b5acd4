"""The shape of a SELECT over one table that the counts of its keys may answer: its clauses, keys and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.query.names import Names, path_at
from hive_bitmap.query.rewrite.expressions import AGGREGATES, Aggregate, Item, Reader, direction
from hive_bitmap.query.rewrite.words import Words

CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
_BY = ("GROUP", "ORDER")
_OTHERS = ("SORT", "CLUSTER", "DISTRIBUTE", "OFFSET", "WINDOW")  # clauses that are left to Spark
_FLOATS = ("float", "double")


@dataclass(frozen=True)
class Shape:
    """A block; `clauses` are the words from each clause's own to the next, `groups` the plain columns of GROUP BY.

    `alias` is the name that the block has for its table, `keys` are the columns that it takes outside WHERE. `plain`
    says that all of GROUP BY, and `bare` that all of the select list, are such columns. `aliases` are the list's.
    """

    words: Words
    clauses: dict[str, tuple[int, int]]
    distinct: bool
    items: tuple[Item, ...]
    alias: str
    keys: tuple[Column, ...]
    aggregates: tuple[Aggregate, ...]
    groups: tuple[Column, ...]
    plain: bool
    aliases: frozenset[str]

    @property
    def bare(self) -> bool:
        return all(item.column is not None for item in self.items)

    @property
    def asks_for_keys(self) -> bool:
        """Whether the result are the keys, each once."""
        grouped = self.aggregates or "GROUP" in self.clauses or "HAVING" in self.clauses
        return self.distinct and self.bare and not grouped and {item.column for item in self.items} == set(self.keys)

    @property
    def tests_aliases(self) -> bool:
        """Whether HAVING names what the select list names."""
        return any(self.words.name(at) in self.aliases for at in range(*self.clauses.get("HAVING", (0, 0))))

    @property
    def limited_to_one(self) -> bool:
        at, end = self.clauses.get("LIMIT", (0, 0))
        return end - at == 2 and self.words.tokens[at + 1].text == "1"


def may_be_counted(words: Words) -> bool:
    """Whether a block may ask for less than its rows, at a glance."""
    first = words.key(words.end - 2) == "LIMIT" or words.key(1) == "DISTINCT"
    return first or any(words.key(at) in (*AGGREGATES, "GROUP") for at in range(words.end))


def keys_in(words: Words, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that a block names outside WHERE, at a glance: not before `shape_of` is it certain that they are."""
    found = clauses(words)
    names = Names(columns, alias_of(words, found))
    keys: dict[Column, None] = {}
    for clause, (at, end) in found.items():
        at += _words_of(clause)
        while at < end and clause not in ("FROM", "WHERE"):
            parts, after = path_at(words.tokens, at)
            column = None if words.key(after) == "(" else names.resolve(parts)
            keys.update({} if column is None else {column: None})
            at = max(after, at + 1)
    return tuple(keys)


def clauses(words: Words) -> dict[str, tuple[int, int]]:
    """Where SELECT and the clauses of a block begin and end; raises Unsupported for anything else on that level."""
    if words.key(0) != "SELECT":
        raise Unsupported("it is no SELECT")
    starts = [("SELECT", 0)]
    for at in words.outer(1, words.end):
        key = words.key(at)
        if key in _OTHERS and starts[-1][0] != "SELECT":
            raise Unsupported(f"{key} is left to Spark")
        if key in CLAUSES and words.begins_clause(at):
            starts.append((key, at))
    names = [name for name, _ in starts]
    order = [("SELECT", *CLAUSES).index(name) for name in names]
    if "FROM" not in names or order != sorted(set(order)):
        raise Unsupported("its clauses are not those of a plain SELECT")
    ends = [*(at for _, at in starts[1:]), words.end]
    return {name: (at, end) for (name, at), end in zip(starts, ends, strict=True)}


def _words_of(clause: str) -> int:
    return 2 if clause in _BY else 1


def alias_of(words: Words, found: dict[str, tuple[int, int]]) -> str:
    """The name that a block has for the one table of its FROM; raises Unsupported where it holds anything else."""
    at, end = found["FROM"]
    parts, after = path_at(words.tokens, at + 1)
    after += words.key(after) == "AS"
    if after == end - 1 and parts:
        parts, after = [words.name(after)], end
    if not parts or after != end or not parts[-1]:
        raise Unsupported("it reads from more than one table")
    return parts[-1]


def shape_of(words: Words, columns: Sequence[Column], names_shown: Sequence[str], single_row: bool = False) -> Shape:
    """The shape of a block over a table of these columns, whose result has these names; raises Unsupported.

    `single_row`: nobody asks how often its rows occur.
    """
    found = clauses(words)
    alias = alias_of(words, found)
    reader = Reader(words, Names(columns, alias))
    start, end = found["SELECT"]
    distinct = words.key(1) == "DISTINCT"
    items = reader.items(start + 1 + (words.key(1) in ("DISTINCT", "ALL")), end, names_shown)
    reader.aliases = {name.lower() for item, name in zip(items, names_shown, strict=True) if item.aliased}
    for name in ("GROUP", "HAVING", "ORDER", "LIMIT"):
        if name in found:
            at, end = found[name]
            for first, last in words.spans(at + _words_of(name), end):
                reader.check(first, direction(words, first, last)[0] if name == "ORDER" else last)
    groups, plain = reader.groups(*found["GROUP"], items) if "GROUP" in found else ((), True)
    shape = Shape(
        words,
        found,
        distinct,
        items,
        alias,
        tuple(reader.keys),
        tuple(reader.aggregates),
        groups,
        plain,
        frozenset(reader.aliases),
    )
    counted = shape.aggregates or "GROUP" in found or "HAVING" in found
    if not counted and not (distinct or shape.limited_to_one or single_row):
        raise Unsupported("it asks for the rows")
    if single_row and not all(_cannot_fail(item, shape.aggregates) for item in items):
        raise Unsupported("Spark need not evaluate what it selects")
    if any(column.type.startswith("char(") for column in shape.keys):
        raise Unsupported("it compares CHAR, which Spark pads in the table's own columns only")
    if any(column.type in _FLOATS for column in shape.keys):
        _require_float_keys(shape, bool(counted))
    return shape


def _cannot_fail(item: Item, aggregates: Sequence[Aggregate]) -> bool:
    """Whether an item is a column, one word, or an aggregate of which there is always a value."""
    simple = (a for a in aggregates if not a.filter and (a.column is not None or not a.argument))
    sound = {(a.start, a.end) for a in simple if a.function in ("COUNT", "MIN", "MAX")}
    return item.column is not None or item.end - item.start == 1 or (item.start, item.end) in sound


def _require_float_keys(shape: Shape, counted: bool) -> None:
    """Of the zeros of a float key the index keeps one: what is computed from it before it is grouped may differ."""
    plain = shape.plain and (shape.bare if not counted else True)
    sound = all(a.column is not None or not a.argument for a in shape.aggregates)
    others = [
        a for a in shape.aggregates if a.column is not None and a.column.type in _FLOATS and a.function != "COUNT"
    ]
    if not plain or not sound or others or any(a.filter for a in shape.aggregates) or not (counted or shape.distinct):
        raise Unsupported("it may tell 0.0 from -0.0, of which the index keeps one")
