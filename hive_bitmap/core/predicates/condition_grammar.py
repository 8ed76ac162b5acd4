"""Parse conditions in SQL texts, in several dialects.

    condition: conjunction [OR conjunction ..]
    conjunction: term [AND term ..]
    term: [NOT ..] test | [NOT ..] ( condition )
    test: column comparison literal | column IS [NOT] NULL | column [NOT] IN ( literal, .. )
        | column [NOT] BETWEEN literal AND literal

A `Dialect` lists what is accepted. A subclass of `Grammar` turns the condition into SQL or into a predicate, and reads
the syntax that only one dialect has.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NoReturn, TypeVar

from hive_bitmap.core.predicates.tokens import Tokens

_Node = TypeVar("_Node")
_Column = TypeVar("_Column")


@dataclass(frozen=True)
class Dialect:
    """The syntax that a dialect of conditions accepts."""

    negations: tuple[str, ...] = ("NOT",)
    comparisons: tuple[str, ...] = ("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=")
    states: tuple[str, ...] = ()  # words that may follow IS [NOT], besides NULL
    has_distinct: bool = False  # IS [NOT] DISTINCT FROM
    has_like: bool = False
    constants: tuple[str, ...] = ("TRUE", "FALSE", "NULL")
    types: tuple[str, ...] = ("DATE",)  # words that may precede a string, as in DATE '2020-01-01'
    most_depth: int = sys.maxsize  # most nested parentheses


# The WHERE in the properties of an index: Spark's SQL, without syntax that settings of a session may change.
STORED = Dialect(
    types=("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
    most_depth=150,  # more than in statements, because `partition_conditions.without` adds parentheses
)
# The WHERE of an index statement.
OPENLOOKENG = Dialect(constants=("TRUE", "FALSE"), types=("DATE", "TIMESTAMP"), most_depth=50)
# The predicate of a query, in Spark's SQL.
QUERY = Dialect(
    negations=("NOT", "!"),
    comparisons=(*Dialect.comparisons, "!>", "!<"),
    states=("TRUE", "FALSE", "UNKNOWN"),
    has_distinct=True,
    has_like=True,
)


@dataclass
class Group(Generic[_Node]):
    """A condition in parentheses that is being read: an OR of ANDs.

    `start` is the position of the opening parenthesis among the tokens, and `depth` the number of open parentheses,
    including this one. `negations` is the number of NOTs before the parenthesis. `negated` says whether the terms of
    the group are negated, by these NOTs and the NOTs before outer groups. `alternatives` has the terms of each AND.
    """

    start: int = 0
    depth: int = 0
    negations: int = 0
    negated: bool = False
    alternatives: list[list[_Node]] = field(default_factory=lambda: [[]])


class Grammar(ABC, Generic[_Node, _Column]):
    """A parser that reads a condition from tokens."""

    dialect: ClassVar[Dialect]

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    @abstractmethod
    def term(self, negations: int, negated: bool) -> _Node:
        """Read a term that is not a group, and return its node.

        `negations` is the number of NOTs before the term. `negated` says whether the term is negated, by these NOTs and
        the NOTs before outer groups.
        """

    @abstractmethod
    def close(self, group: Group[_Node]) -> _Node:
        """Return the node of a group.

        The closing parenthesis of the group has been read.
        """

    @abstractmethod
    def node(self, column: _Column, operator: str, negated: bool, *literals: str) -> _Node:
        """Return the node of a test of a column.

        `operator` is a comparison, or words without NOT, such as `IS NULL` or `BETWEEN`. `negated` says whether the
        test has a NOT inside, as in `IS NOT NULL` or `NOT BETWEEN`; a NOT before the test is not counted. `literals`
        are the operands in Spark's SQL.
        """

    @abstractmethod
    def unsupported(self) -> NoReturn:
        """Raise an error for the next token."""

    def condition(self) -> list[list[_Node]]:
        """Read all tokens; return the operands of the OR, each with its terms.

        The terms of an operand are joined by AND. Open groups are kept in a list, not on the call stack, so that a
        thousand nested parentheses can be read.
        """
        tokens, most_depth = self.tokens, self.dialect.most_depth
        groups = [Group[_Node]()]
        while True:
            group = groups[-1]
            negations = 0
            while tokens.token.key in self.dialect.negations:
                tokens.advance()
                negations += 1
            negated = group.negated ^ (negations % 2 == 1)
            if self.opens_group():
                groups.append(Group(tokens.at, len(groups), negations, negated))
                tokens.advance()
                if group.depth == most_depth:
                    raise tokens.error(f"WHERE is nested deeper than {most_depth} parentheses")
                continue
            group.alternatives[-1].append(self.term(negations, negated))
            while len(groups) > 1 and tokens.accept(")"):
                closed = groups.pop()
                groups[-1].alternatives[-1].append(self.close(closed))
            if tokens.accept("OR"):
                groups[-1].alternatives.append([])
            elif not tokens.accept("AND"):
                if len(groups) > 1 or tokens.token.kind != "end":
                    self.unsupported()
                return groups[0].alternatives

    def opens_group(self) -> bool:
        """Return whether the next token opens a group."""
        return self.tokens.token.key == "("

    def expect(self, word: str) -> None:
        """Consume this word or symbol, which must come next."""
        if not self.tokens.accept(word):
            self.unsupported()

    def one_of(self, words: Sequence[str]) -> str:
        """Consume and return one of these words or symbols."""
        if self.tokens.token.key not in words:
            self.unsupported()
        return self.tokens.advance().key

    def items(self, item: Callable[[], str]) -> list[str]:
        """Consume a list in parentheses, and return its items.

        `item` consumes and returns one item. The list has at least one item.
        """
        self.expect("(")
        items = [item()]
        while self.tokens.accept(","):
            items.append(item())
        self.expect(")")
        return items

    def test_of(self, column: _Column) -> _Node:
        """Read a test after its column, and return its node."""
        tokens, dialect = self.tokens, self.dialect
        if tokens.accept("IS"):
            negated = tokens.accept("NOT")
            if tokens.accept("NULL"):
                return self.node(column, "IS NULL", negated)
            if dialect.has_distinct and tokens.accept("DISTINCT", "FROM"):
                return self.node(column, "IS DISTINCT FROM", negated, self.literal())
            return self.node(column, f"IS {self.one_of(dialect.states)}", negated)
        if tokens.token.key in dialect.comparisons:
            return self.node(column, tokens.advance().key, False, self.literal())
        negated = tokens.accept("NOT")
        if tokens.accept("BETWEEN"):
            low = self.literal()
            self.expect("AND")
            return self.node(column, "BETWEEN", negated, low, self.literal())
        if dialect.has_like and tokens.accept("LIKE"):
            return self.node(column, "LIKE", negated, self.literal())
        self.expect("IN")
        return self.node(column, "IN", negated, *self.items(self.literal))

    def literal(self) -> str:
        """Read a literal and return it in Spark's SQL."""
        tokens = self.tokens
        sign = "-" if tokens.accept("-") else ""
        if tokens.token.kind == "number":
            return sign + tokens.advance().text
        if sign:
            self.unsupported()
        if tokens.token.key in self.dialect.constants:
            return tokens.advance().key
        if tokens.token.key in self.dialect.types:
            return f"{tokens.advance().key} {self.string()}"
        return self.string()

    def string(self) -> str:
        """Read a string in single quotes without a backslash.

        Such a string has the same value in every session.
        """
        token = self.tokens.token
        if token.kind != "string" or token.text[0] != "'" or "\\" in token.text:
            self.unsupported()
        return self.tokens.advance().text
