"""Parse conditions on partition columns, in the WHERE of an index.

The conditions are a small part of Spark's SQL, without functions and subqueries. The text of a condition comes from
table properties, which anybody may have written. So the text itself is never passed to Spark: it is parsed, and new SQL
is written from the parsed condition.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.condition_grammar import STORED, Grammar, Group
from hive_bitmap.core.predicates.tokens import Tokens, require_characters
from hive_bitmap.core.table_info import quote
from hive_bitmap.errors import InvalidPredicate

SUPPORTED = (
    "partition columns, compared with literals (=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL), joined by AND, OR and NOT"
)
_TYPE = re.compile(r"[A-Z]\w*")


class PartitionCondition(Grammar[str, str]):
    """A parser that converts a condition to Spark's SQL.

    `columns` has the names of the columns that were read so far, in order.
    """

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self.columns: dict[str, None] = {}

    def parts(self) -> list[str]:
        """Read all tokens; return the operands of the OR, in Spark's SQL."""
        return [" AND ".join(terms) for terms in self.condition()]

    @abstractmethod
    def column(self) -> str:
        """Read the name of a column, and return it without quotes."""

    def term(self, negations: int, negated: bool) -> str:
        name = self.column()
        self.columns.setdefault(name)
        return "NOT " * negations + self.test_of(quote(name))

    def close(self, group: Group[str]) -> str:
        inner = " OR ".join(" AND ".join(terms) for terms in group.alternatives)
        truth = ""
        if self.tokens.accept("IS"):
            negation = "NOT " if self.tokens.accept("NOT") else ""
            truth = f" IS {negation}{self.one_of(('TRUE', 'FALSE'))}"
        return f"{'NOT ' * group.negations}({inner}){truth}"

    def node(self, column: str, operator: str, negated: bool, *literals: str) -> str:
        negation = "NOT " if negated else ""
        match operator:
            case "IS NULL":
                return f"{column} IS {negation}NULL"
            case "IN":
                return f"{column} {negation}IN ({', '.join(literals)})"
            case _:  # a comparison or BETWEEN
                return f"{column} {negation}{operator} {' AND '.join(literals)}"

    def unsupported(self) -> NoReturn:
        raise self.tokens.error(f"mismatched input '{self.tokens.token.text}' in WHERE, which takes {SUPPORTED}")


class _StoredCondition(PartitionCondition):
    """A parser of the conditions that indexes store.

    Strings with quotes inside and strings in double quotes are not supported, because Spark's settings may change their
    meaning.
    """

    dialect = STORED

    def column(self) -> str:
        if self.tokens.token.kind not in ("word", "name"):
            self.unsupported()
        return self.tokens.advance().name

    def literal(self) -> str:
        if not self.tokens.accept("CAST", "("):
            return super().literal()
        value = self.literal()
        self.expect("AS")
        type = self._type()
        self.expect(")")
        return f"CAST({value} AS {type})"

    def string(self) -> str:
        token = self.tokens.token
        return self.tokens.advance().text if token.kind == "raw" and token.text[0] in "xX" else super().string()

    def _type(self) -> str:
        """Read a type: a word, or a word with numbers in parentheses."""
        word = self.tokens.advance().key
        if not _TYPE.fullmatch(word):
            self.unsupported()
        return f"{word}({', '.join(self.items(self._number))})" if self.tokens.token.key == "(" else word

    def _number(self) -> str:
        if self.tokens.token.kind != "number":
            self.unsupported()
        return self.tokens.advance().text


def parse(text: str, columns: Sequence[Column]) -> list[str]:
    """Return the operands of a condition's OR, in Spark's SQL.

    A condition without OR is the only operand. The condition must test no other columns than the partition columns
    `columns`. Raises InvalidPredicate if the text is not such a condition.

    >>> parse("p=1 or (P in (2, 3) and not p is null)", [Column("p", "int")])
    ['`p` = 1', '(`P` IN (2, 3) AND NOT `p` IS NULL)']
    """
    require_characters(text)
    condition = _StoredCondition(Tokens(text))
    parts = condition.parts()
    known_columns = {column.name.lower() for column in columns}
    for name in condition.columns:
        if name.lower() not in known_columns:
            names = ", ".join(column.name for column in columns) or "none"
            raise InvalidPredicate(f"{name} is not a partition column in WHERE {text}: those of the table are {names}")
    return parts


def either(first: str, second: str, columns: Sequence[Column]) -> str:
    """Return the condition `first OR second`, in Spark's SQL.

    Both conditions must test these partition columns only.
    """
    return " OR ".join([*parse(first, columns), *parse(second, columns)])


def without(first: str, second: str, columns: Sequence[Column]) -> str:
    """Return the condition `first AND NOT second`, in Spark's SQL.

    Both conditions must test these partition columns only. The result is true for a row if the first condition is true,
    and the second condition is false or NULL.
    """
    parts = parse(first, columns)
    whole = parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"
    cut = f"{whole} AND ({' OR '.join(parse(second, columns))}) IS NOT TRUE"
    return " OR ".join(parse(cut, columns))  # raises an error if it is too deep to be read again
