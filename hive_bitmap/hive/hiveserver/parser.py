"""Parse predicates in Spark's SQL dialect, without Spark.

This module parses the boolean structure (AND, OR, NOT, parentheses) of the token stream by precedence. Each leaf keeps
its exact source, and `leaves` decides what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import And, Or, Predicate, Unknown, conjunction, disjunction, negate, simplify
from hive_bitmap.core.predicates.tokens import Token, require_characters, tokenize
from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.hive.hiveserver.column_names import Names
from hive_bitmap.hive.hiveserver.leaves import leaf

__all__ = ["parse"]

_BRACKETS = {")": "(", "]": "[", "}": "{"}
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE")
_MAX_DEPTH = 25  # alternations of AND and OR; recursion, hashing and pickling would fail on much deeper trees


def parse(text: str, columns: Sequence[Column], table: str | None = None) -> Predicate:
    """Parse a condition to a simplified tree.

    The tree selects the rows where the condition is TRUE. `table` is the name or alias that may qualify column names. A
    part that is not understood becomes Unknown. Raises InvalidPredicate, with line, column and reason, if the text
    cannot be split into leaves.

    >>> parse("NOT (a < 3 OR b LIKE 'x%')", [Column("a", "int"), Column("b", "string")])
    And(children=(Compare(column='a', op='>=', value=3), Prefix(column='b', prefix='x', negated=True)))
    """
    require_characters(text)
    tokens = tokenize(text)
    names = Names(columns, table)
    if not tokens:
        raise InvalidPredicate.at(text, 0, "a condition is missing")
    if "${" in text:
        return Unknown(text, "Spark may replace what stands in ${..}")
    if tokens[-1].kind == "ambiguous":
        return Unknown(text, f"{text[tokens[-1].start :][:2]!r} may be read in several ways")
    if names.hides_structure(tokens):
        return Unknown(text, "a column is named like a keyword")
    return _Splitter(text, tokens, names, _bracket_pairs(text, tokens)).split()


@dataclass
class _Group:
    """An open parenthesis: an OR of ANDs, as read so far."""

    negated: bool
    start: int
    alternatives: list[list[Predicate]] = field(default_factory=lambda: [[]])

    def closed(self) -> Predicate:
        """Return the group as one node.

        Under NOT its leaves are already negated, and AND and OR are swapped.
        """
        outer, inner = (conjunction, disjunction) if self.negated else (disjunction, conjunction)
        return outer(inner(parts) for parts in self.alternatives)


@dataclass(frozen=True)
class _Splitter:
    text: str
    tokens: list[Token]
    names: Names
    pairs: dict[int, int]  # position of each opening bracket -> position of its closing bracket

    def split(self) -> Predicate:
        """Return the whole text as one node.

        Open groups are kept in a list, not on the call stack, so that a thousand nested parentheses can be parsed.
        """
        groups = [_Group(False, 0)]
        at = 0
        while True:
            at, negated = self._negations(at, groups[-1].negated)
            if self._opens_group(at):
                groups.append(_Group(negated, at))
                at += 1
                continue
            end = self._leaf_end(at)
            groups[-1].alternatives[-1].append(self._leaf(at, end, negated))
            at = end
            while self._key(at) == ")":
                self._close(groups, at)
                at += 1
            if at == len(self.tokens):
                return groups[0].closed()
            if self.tokens[at].key == "OR":
                groups[-1].alternatives.append([])
            at += 1

    def _key(self, at: int) -> str:
        return self.tokens[at].key if at < len(self.tokens) else ""

    def _negations(self, at: int, negated: bool) -> tuple[int, bool]:
        while self._key(at) in ("NOT", "!"):
            at, negated = at + 1, not negated
        return at, negated

    def _opens_group(self, at: int) -> bool:
        """Return whether the parenthesis encloses a condition.

        It may also enclose an operand, a row value or a subquery.
        """
        if self._key(at) != "(" or self._key(at + 1) in (")", *_QUERIES):
            return False
        close = self.pairs[at]
        if close + 1 < len(self.tokens) and self._key(close + 1) not in ("AND", "OR", ")"):
            return False
        inside = at + 1
        while inside < close:
            if self._key(inside) == ",":
                return False
            inside = self.pairs.get(inside, inside) + 1
        return True

    def _leaf_end(self, at: int) -> int:
        """Return the end of a leaf.

        It is the next AND, OR or ) that does not belong to a BETWEEN, CASE or bracket.
        """
        start, cases, betweens = at, 0, 0
        if self._key(at) in ("AND", "OR") and self._key(at + 1) == "(":
            at += 1  # the functions and(..) and or(..)
        while at < len(self.tokens) and (key := self._key(at)) != ")":
            if key == "CASE":
                cases += 1
            elif key == "END":
                cases = max(0, cases - 1)
            elif not cases and key == "BETWEEN":
                betweens += 1
            elif not cases and key == "AND" and betweens:
                betweens -= 1
            elif not cases and key in ("AND", "OR"):
                break
            at = self.pairs.get(at, at) + 1
        if at == start:
            raise self._missing_condition(at)
        return at

    def _missing_condition(self, at: int) -> InvalidPredicate:
        here, offset = "the end", len(self.text)
        if at < len(self.tokens):
            here, offset = self.tokens[at].text, self.tokens[at].start
        after = f" after {self.tokens[at - 1].text}" if at else ""
        return InvalidPredicate.at(self.text, offset, f"{here} stands where a condition should{after}")

    def _leaf(self, start: int, end: int, negated: bool) -> Predicate:
        node = leaf(self.tokens[start:end], self.text, self.names)
        return simplify(negate(node) if negated else node)

    def _close(self, groups: list[_Group], at: int) -> None:
        deep = len(groups) > _MAX_DEPTH
        group = groups.pop()
        node = group.closed()
        if deep and _depth(node) > _MAX_DEPTH:
            text = self.text[self.tokens[group.start].start : self.tokens[at].end]
            node = Unknown(f"NOT {text}" if group.negated else text, "nested too deep")
        groups[-1].alternatives[-1].append(node)


def _bracket_pairs(text: str, tokens: Sequence[Token]) -> dict[int, int]:
    """Map the position of each opening bracket to that of its closing bracket.

    Raises InvalidPredicate if brackets do not match.
    """
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.key in _BRACKETS.values() and token.key:
            opened.append(at)
        elif token.key in _BRACKETS:
            if not opened or tokens[opened[-1]].key != _BRACKETS[token.key]:
                raise InvalidPredicate.at(text, token.start, f"this {token.key} closes nothing")
            pairs[opened.pop()] = at
    if opened:
        raise InvalidPredicate.at(text, tokens[opened[-1]].start, f"this {tokens[opened[-1]].key} is not closed")
    return pairs


def _depth(predicate: Predicate) -> int:
    depth, level = 0, [predicate]
    while level := [child for node in level if isinstance(node, (And, Or)) for child in node.children]:
        depth += 1
    return depth
