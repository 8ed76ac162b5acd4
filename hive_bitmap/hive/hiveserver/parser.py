"""Parse predicates in Spark's SQL dialect, without Spark.

`condition_grammar` parses the boolean structure. A leaf is the text between two ANDs or ORs. The client evaluates a
leaf itself if `leaves` can convert it to a node, and if the whole leaf has one of these forms: a test of the grammar,
`literal op column`, LIKE 'prefix%', a boolean column alone, a constant such as TRUE alone, or `1 = 1` with any two
integers. A leaf that goes on after such a form is not evaluated, because this parser might misjudge the precedence of
its operators.

Any other leaf becomes Unknown, with its exact source: all rows may satisfy an Unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.condition_grammar import QUERY, Grammar, Group
from hive_bitmap.core.predicates.nodes import (
    Constant,
    Predicate,
    Unknown,
    conjunction,
    depth_of,
    disjunction,
    negate,
    simplify,
)
from hive_bitmap.core.predicates.tokens import Token, Tokens, require_characters
from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.hive.hiveserver.column_names import Names
from hive_bitmap.hive.hiveserver.leaves import node_of
from hive_bitmap.hive.hiveserver.literals import CONSTANTS, EngineOnly, literal_of

__all__ = ["parse"]

_BRACKETS = {")": "(", "]": "[", "}": "{"}
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE")
_MAX_DEPTH = 25  # alternations of AND and OR; recursion, hashing and pickling would fail on much deeper trees
# The operator `column op literal` that means the same as `literal op column`.
_MIRROR = {"<": ">", "<=": ">=", "!>": ">=", ">": "<", ">=": "<=", "!<": "<="}


def parse(text: str, columns: Sequence[Column], table: str | None = None) -> Predicate:
    """Parse a condition to a simplified tree.

    The tree selects the rows where the condition is TRUE. `table` is the name or alias that may qualify column names;
    None if column names cannot be qualified. A part of the condition that is not understood becomes Unknown. Raises
    InvalidPredicate, with line, column and reason, if the text cannot be split into leaves.

    >>> parse("NOT (a < 3 OR b LIKE 'x%')", [Column("a", "int"), Column("b", "string")])
    And(children=(Compare(column='a', op='>=', value=3), Prefix(column='b', prefix='x', negated=True)))
    """
    require_characters(text)
    tokens, names = Tokens(text), Names(columns, table)
    if not tokens.tokens:
        raise InvalidPredicate.at(text, 0, "a condition is missing")
    if "${" in text:
        return Unknown(text, "Spark may replace what stands in ${..}")
    if tokens.tokens[-1].kind == "ambiguous":
        return Unknown(text, f"{text[tokens.tokens[-1].start :][:2]!r} may be read in several ways")
    if names.hides_structure(tokens.tokens):
        return Unknown(text, "a column is named like a keyword")
    alternatives = Condition(tokens, names, _bracket_pairs(text, tokens.tokens)).condition()
    return disjunction(conjunction(parts) for parts in alternatives)


class Condition(Grammar[Predicate, Column]):
    """A parser that turns the text of a condition into a predicate."""

    dialect = QUERY

    def __init__(self, tokens: Tokens, names: Names, pairs: Mapping[int, int]) -> None:
        super().__init__(tokens)
        self._names = names
        self._pairs = pairs  # position of each opening bracket -> position of its closing bracket

    def opens_group(self) -> bool:
        """Return whether the next token is a parenthesis that encloses a condition.

        A parenthesis may also enclose an operand, a row value or a subquery.
        """
        at = self.tokens.at
        if self._key(at) != "(" or self._key(at + 1) in (")", *_QUERIES):
            return False
        close = self._pairs[at]
        if close + 1 < len(self.tokens.tokens) and self._key(close + 1) not in ("AND", "OR", ")"):
            return False
        inside = at + 1
        while inside < close:
            if self._key(inside) == ",":
                return False
            inside = self._pairs.get(inside, inside) + 1
        return True

    def close(self, group: Group[Predicate]) -> Predicate:
        """Return the group as one node.

        Under NOT, the leaves of the group are already negated, and AND and OR are swapped. A group that is nested too
        deep becomes Unknown.
        """
        outer, inner = (conjunction, disjunction) if group.negated else (disjunction, conjunction)
        node = outer(inner(parts) for parts in group.alternatives)
        if group.depth < _MAX_DEPTH or depth_of(node) <= _MAX_DEPTH:
            return node
        text = self._source(group.start, self.tokens.at)
        return Unknown(f"NOT {text}" if group.negated else text, "nested too deep")

    def term(self, negations: int, negated: bool) -> Predicate:
        node = self.leaf(self._leaf_end())
        return simplify(negate(node) if negated else node)

    def leaf(self, end: int) -> Predicate:
        """Read a leaf, and return its node.

        `end` is the position of the token after the leaf. The node is TRUE, FALSE or NULL for the same rows as the
        leaf, or Unknown if only an engine can evaluate the leaf.
        """
        tokens, start = self.tokens, self.tokens.at
        try:
            node = self._test(end)
            if tokens.at != end:
                self.unsupported()
        except EngineOnly:
            node = Unknown(self._source(start, end), "only an engine evaluates it")
        tokens.at = end
        return node

    def node(self, column: Column, operator: str, negated: bool, *literals: str) -> Predicate:
        node = node_of(column, operator, list(map(literal_of, literals)))
        return negate(node) if negated else node

    def literal(self) -> str:
        operand = self._operand()
        if isinstance(operand, Column):
            self.unsupported()
        return operand

    def unsupported(self) -> NoReturn:
        raise EngineOnly

    def _operand(self) -> Column | str:
        """Read a column or a literal, which may be in parentheses.

        Return a column as Column, and a literal as its text.
        """
        tokens, opened = self.tokens, 0
        while tokens.accept("("):
            opened += 1
        start = tokens.at
        operand: Column | str | None
        try:
            operand = super().literal()
        except EngineOnly:
            tokens.at = start
            operand = self._names.column(tokens)
        if operand is None:
            self.unsupported()
        for _ in range(opened):
            self.expect(")")
        return operand

    def _test(self, end: int) -> Predicate:
        """Read the tokens of a leaf, and return its node.

        The leaf is a test, a boolean column alone, a constant alone, or an equality of two integers. `end` is the
        position of the token after the leaf.
        """
        left = self._operand()
        if isinstance(left, Column):
            return self.node(left, "=", False, "TRUE") if self.tokens.at == end else self.test_of(left)
        if self.tokens.at == end and left in CONSTANTS:
            return Constant(CONSTANTS[left])
        operator, right = self.one_of(self.dialect.comparisons), self._operand()
        if isinstance(right, Column):
            return self.node(right, _MIRROR.get(operator, operator), False, left)
        first, second = literal_of(left).value, literal_of(right).value
        if operator not in ("=", "==") or not type(first) is type(second) is int:
            self.unsupported()
        return Constant(first == second)

    def _key(self, at: int) -> str:
        return self.tokens.tokens[at].key if at < len(self.tokens.tokens) else ""

    def _source(self, start: int, end: int) -> str:
        tokens = self.tokens.tokens
        return self.tokens.text[tokens[start].start : tokens[end - 1].end]

    def _leaf_end(self) -> int:
        """Return the position of the token after the current leaf.

        A leaf ends at the next AND, OR or ) that does not belong to a BETWEEN, CASE or bracket. Raises InvalidPredicate
        if the leaf is empty.
        """
        at = start = self.tokens.at
        cases = betweens = 0
        if self._key(at) in ("AND", "OR") and self._key(at + 1) == "(":
            at += 1  # the functions and(..) and or(..)
        while at < len(self.tokens.tokens) and (key := self._key(at)) != ")":
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
            at = self._pairs.get(at, at) + 1
        if at == start:
            here = "the end" if self.tokens.token.kind == "end" else self.tokens.token.text
            after = f" after {self.tokens.tokens[at - 1].text}" if at else ""
            raise self.tokens.error(f"{here} stands where a condition should{after}")
        return at


def _bracket_pairs(text: str, tokens: Sequence[Token]) -> dict[int, int]:
    """Map positions of opening brackets to positions of their closing brackets.

    Both are positions in `tokens`. Raises InvalidPredicate if brackets do not match.
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
