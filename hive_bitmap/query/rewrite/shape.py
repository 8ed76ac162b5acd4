"""The shape of a SELECT over one table that the counts of its keys may answer: its clauses, keys and aggregates.

Strictly an allowlist: what is not known to be a function of keys, aggregates and literals is refused with Unsupported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.query.deterministic import sign_problem, word_problem
from hive_bitmap.query.names import Names, path_at
from hive_bitmap.query.rewrite.words import Words

CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
AGGREGATES = ("COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX")
_AROUND = {"ASC", "DESC", "NULLS", "FIRST", "LAST", "BY", "GROUP", "ORDER", "HAVING", "LIMIT", "ALL"}
_FLOATS = ("float", "double")


@dataclass(frozen=True)
class Aggregate:
    """A call in the words [start, end): its function, what it is called with, and its FILTER clause as text.

    `argument` is the text behind DISTINCT, empty for `count(*)` and `count(1)`; `column` if it is just that column.
    """

    start: int
    end: int
    function: str
    distinct: bool
    argument: str
    column: Column | None
    filter: str


@dataclass(frozen=True)
class Item:
    """The words [start, end) of an expression of the select list, without its alias."""

    start: int
    end: int
    aliased: bool
    column: Column | None


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
    def tests_aliases(self) -> bool:
        """Whether HAVING names what the select list names."""
        return any(self.words.name(at) in self.aliases for at in range(*self.clauses.get("HAVING", (0, 0))))

    @property
    def limited_to_one(self) -> bool:
        at, end = self.clauses.get("LIMIT", (0, 0))
        return end - at == 2 and self.words.tokens[at + 1].text == "1"


def clauses(words: Words) -> dict[str, tuple[int, int]]:
    """Where SELECT and the clauses of a block begin and end; raises Unsupported for anything else on that level."""
    if words.key(0) != "SELECT":
        raise Unsupported("it is no SELECT")
    starts = [("SELECT", 0)]
    for at in words.outer(1, words.end):
        key = words.key(at)
        if key in CLAUSES and not (key == "FROM" and words.key(at - 1) == "DISTINCT"):
            starts.append((key, at))
    names = [name for name, _ in starts]
    order = [("SELECT", *CLAUSES).index(name) for name in names]
    if "FROM" not in names or order != sorted(set(order)):
        raise Unsupported("its clauses are not those of a plain SELECT")
    ends = [*(at for _, at in starts[1:]), words.end]
    return {name: (at, end) for (name, at), end in zip(starts, ends, strict=True)}


def alias_of(words: Words, found: dict[str, tuple[int, int]]) -> str:
    """The name that a block has for the one table of its FROM; raises Unsupported where it holds anything else."""
    at, end = found["FROM"]
    parts, after = path_at(words.tokens, at + 1)
    after += words.key(after) == "AS"
    if after == end - 1 and parts:
        parts, after = [words.name(after)], end
    if not parts or after != end or "." in parts[-1] or not parts[-1]:
        raise Unsupported("it reads from more than one table")
    return parts[-1]


def shape_of(words: Words, columns: Sequence[Column], names_shown: Sequence[str], single_row: bool = False) -> Shape:
    """The shape of a block over a table of these columns, whose result has these names; raises Unsupported.

    `single_row`: nobody asks how often its rows occur.
    """
    found = clauses(words)
    alias = alias_of(words, found)
    reader = _Reader(words, Names(columns, alias))
    start, end = found["SELECT"]
    distinct = words.key(1) == "DISTINCT"
    items = reader.items(start + 1 + (words.key(1) in ("DISTINCT", "ALL")), end, names_shown)
    reader.aliases = {name.lower() for item, name in zip(items, names_shown, strict=True) if item.aliased}
    for name in ("GROUP", "HAVING", "ORDER", "LIMIT"):
        if name in found:
            reader.check(found[name][0], found[name][1])
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
    if any(column.type.startswith("char(") for column in shape.keys):
        raise Unsupported("it compares CHAR, which Spark pads in the table's own columns only")
    if any(column.type in _FLOATS for column in shape.keys):
        _require_float_keys(shape, bool(counted))
    return shape


def _require_float_keys(shape: Shape, counted: bool) -> None:
    """Of the zeros of a float key the index keeps one: what is computed from it before it is grouped may differ."""
    plain = shape.plain and (shape.bare if not counted else True)
    sound = all(a.column is not None or not a.argument for a in shape.aggregates)
    others = [
        a for a in shape.aggregates if a.column is not None and a.column.type in _FLOATS and a.function != "COUNT"
    ]
    if not plain or not sound or others or any(a.filter for a in shape.aggregates) or not (counted or shape.distinct):
        raise Unsupported("it may tell 0.0 from -0.0, of which the index keeps one")


class _Reader:
    """Reads expressions, and gathers the keys and aggregates in them."""

    def __init__(self, words: Words, names: Names) -> None:
        self.words, self.names = words, names
        self.keys: dict[Column, None] = {}
        self.aggregates: list[Aggregate] = []
        self.aliases: set[str] = set()

    def items(self, at: int, end: int, shown: Sequence[str]) -> tuple[Item, ...]:
        """The expressions of the select list; one that ends in its name in the result has an alias."""
        spans = list(self._split(at, end))
        if len(spans) != len(shown):
            raise Unsupported("its select list is not understood")
        items = []
        for (start, stop), name in zip(spans, shown, strict=True):
            aliased = stop - start > 1 and self.words.name(stop - 1) == name.lower() and self.words.key(stop - 2) != "."
            expression = stop - aliased - (aliased and self.words.key(stop - 2) == "AS")
            column = self._column(start, expression)
            if aliased and self.names.holds(name) and (column is None or column.name.lower() != name.lower()):
                raise Unsupported(f"alias {name} is the name of a column")
            self.check(start, expression)
            items.append(Item(start, expression, aliased, column))
        return tuple(items)

    def groups(self, at: int, end: int, items: Sequence[Item]) -> tuple[tuple[Column, ...], bool]:
        """The plain columns of GROUP BY, by name, number or ALL, and whether there is nothing else."""
        found: list[Column | None] = []
        if self.words.key(at + 2) == "ALL" and at + 3 == end:
            spans = [item for item in items if not any(item.start <= a.start < item.end for a in self.aggregates)]
            found = [item.column for item in spans]
        else:
            for start, stop in self._split(at + 2, end):
                token = self.words.tokens[start]
                number = int(token.text) if stop - start == 1 and token.text.isdigit() else 0
                found.append(items[number - 1].column if 0 < number <= len(items) else self._column(start, stop))
        if not found:
            raise Unsupported("it groups by nothing")
        columns = tuple(dict.fromkeys(column for column in found if column is not None))
        return columns, None not in found

    def check(self, at: int, end: int) -> None:
        """Gather keys and aggregates of the words; raises Unsupported for a word that may not stand there."""
        tokens = self.words.tokens
        while at < end:
            if tokens[at].key in AGGREGATES and self.words.key(at + 1) == "(":
                at = self._aggregate(at)
                continue
            parts, after = path_at(tokens, at)
            after = max(after, at + 1)
            column = None if self.words.key(after) == "(" else self.names.resolve(parts)
            if column is not None:
                self.keys[column] = None
            elif parts:
                self._require_word(at, after, parts)
            elif tokens[at].key == "*" and self.words.key(at - 1) in ("SELECT", "DISTINCT", "ALL", ",", "(", "."):
                raise Unsupported("a star stands for all columns")
            elif problem := sign_problem(tokens[at]):
                raise Unsupported(problem)
            at = after

    def _require_word(self, at: int, after: int, parts: Sequence[str]) -> None:
        tokens = self.words.tokens[at:after]
        called = self.words.key(after) == "("
        around = tokens[0].key in _AROUND and not (called and tokens[0].key in ("FIRST", "LAST"))
        if len(parts) == 1 and (around or (parts[0] in self.aliases and not called)):
            return
        problem = word_problem(tokens, self.words.key(at - 1), called, self.names)
        if problem or tokens[0].key == "OVER":
            raise Unsupported(problem or "it has a window")

    def _aggregate(self, at: int) -> int:
        """Gather the call that begins here; returns the place behind it."""
        words, close = self.words, self.words.closers[at + 1]
        start, end = at + 2, close + 1
        distinct = words.key(start) == "DISTINCT"
        start += distinct or words.key(start) == "ALL"
        several = len(list(self._split(start, close))) != 1
        literal = close - start == 1 and (words.key(start) == "*" or words.tokens[start].kind == "number")
        if start == close or (several and not distinct) or (literal and (distinct or words.tokens[at].key != "COUNT")):
            raise Unsupported("an aggregate that is not understood")
        before = len(self.aggregates)
        if not literal:
            self.check(start, close)
        condition = ""
        if words.key(end) == "FILTER" and words.key(end + 1) == "(" and words.key(end + 2) == "WHERE":
            self.check(end + 3, words.closers[end + 1])
            condition = words.source(end, words.closers[end + 1] + 1)
            end = words.closers[end + 1] + 1
        if len(self.aggregates) != before:
            raise Unsupported("an aggregate in an aggregate")
        column = None if literal else self._column(start, close)
        argument = "" if literal else words.source(start, close)
        self.aggregates.append(Aggregate(at, end, words.tokens[at].key, distinct, argument, column, condition))
        return end

    def _column(self, at: int, end: int) -> Column | None:
        found = self.names.column_at(self.words.tokens[:end], at)
        return found[0] if found is not None and found[1] == end else None

    def _split(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """The spans between the outer commas."""
        start = at
        for place in self.words.outer(at, end):
            if self.words.key(place) == ",":
                yield start, place
                start = place + 1
        if start < end:
            yield start, end
