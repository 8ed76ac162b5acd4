"""Expressions over keys, aggregates and literals: which keys and aggregates they hold, and that they hold nothing else.

Strictly an allowlist: what is not known to be a function of these is refused with Unsupported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.query.deterministic import sign_problem, word_problem
from hive_bitmap.query.names import Names, path_at
from hive_bitmap.query.rewrite.words import Words

AGGREGATES = ("COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX")


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


def direction(words: Words, start: int, stop: int) -> tuple[int, bool, bool]:
    """Of an item of ORDER BY, where the expression ends, whether large values come first, and whether NULLs do."""
    nulls = words.key(stop - 1) if words.key(stop - 2) == "NULLS" and stop - 2 > start else ""
    stop -= 2 if nulls else 0
    said = words.key(stop - 1) if words.key(stop - 1) in ("ASC", "DESC") and stop - 1 > start else ""
    descending = said == "DESC"
    return stop - bool(said), descending, nulls == "FIRST" if nulls else not descending


class Reader:
    """Reads expressions, and gathers the keys and aggregates in them."""

    def __init__(self, words: Words, names: Names) -> None:
        self.words, self.names = words, names
        self.keys: dict[Column, None] = {}
        self.aggregates: list[Aggregate] = []
        self.aliases: set[str] = set()

    def items(self, at: int, end: int, shown: Sequence[str]) -> tuple[Item, ...]:
        """The expressions of the select list; one that ends in its name in the result has an alias."""
        spans = list(self.words.spans(at, end))
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
        if self.words.key(at + 2) == "ALL" and at + 3 == end and not self.names.holds("all"):
            spans = [item for item in items if not any(item.start <= a.start < item.end for a in self.aggregates)]
            found = [item.column for item in spans]
        else:
            for start, stop in self.words.spans(at + 2, end):
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
        if len(parts) == 1 and not called and (tokens[0].key == "ALL" or parts[0] in self.aliases):
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
        several = len(list(self.words.spans(start, close))) != 1
        literal = close - start == 1 and (words.key(start) == "*" or words.tokens[start].kind == "number")
        if start == close or (several and not distinct) or (literal and (distinct or words.tokens[at].key != "COUNT")):
            raise Unsupported("an aggregate that is not understood")
        before = len(self.aggregates)
        if not literal:
            self._argument(start, close, counted=words.key(at) == "COUNT" and not distinct)
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

    def _argument(self, at: int, end: int, *, counted: bool) -> None:
        """Gather what an aggregate is of; only of rows that are `counted` may it be the same for all."""
        own = Reader(self.words, self.names)
        own.aliases = self.aliases
        own.check(at, end)
        if not own.keys and not counted:
            raise Unsupported("an aggregate of a constant, which has rows to be of or none")
        self.keys |= own.keys
        self.aggregates += own.aggregates

    def _column(self, at: int, end: int) -> Column | None:
        found = self.names.column_at(self.words.tokens[:end], at)
        return found[0] if found is not None and found[1] == end else None
