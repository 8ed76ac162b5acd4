"""Conditions on partition columns, in the WHERE of an index.

They are a small part of Spark's SQL. The text of such a condition comes from table properties, which others may have
written. So it is never passed to Spark: it is parsed, and the parsed condition is written as SQL again. There are no
functions and no subqueries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.tokens import Token, require_characters, tokenize
from hive_bitmap.core.table_info import quote
from hive_bitmap.errors import HiveBitmapError, InvalidPredicate

COMPARISONS = ("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=")
MOST_DEPTH, MOST_STORED_DEPTH = 50, 150  # of nested parentheses; `without` makes conditions deeper
SUPPORTED = (
    "partition columns, compared with literals (=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL), joined by AND, OR and NOT"
)
_END = Token("end", "<EOF>", -1, "")
_TYPE = re.compile(r"[A-Z]\w*")


class Tokens(Protocol):
    """The tokens of a text, read one by one."""

    @property
    def token(self) -> Token: ...

    def accept(self, *words: str) -> bool: ...

    def advance(self) -> Token: ...

    def error(self, reason: str) -> HiveBitmapError: ...


@dataclass(frozen=True)
class Grammar:
    """The grammar of conditions.

    It reads from `tokens` and writes SQL; `columns` are those named so far, in order. The dialect decides how columns
    and literals are written: a subclass has `column` and `literal`.
    """

    tokens: Tokens
    columns: dict[str, None] = field(default_factory=dict)
    most_depth: int = MOST_DEPTH

    def column(self) -> str:
        raise NotImplementedError

    def literal(self) -> str:
        raise NotImplementedError

    def conditions(self, depth: int = 0) -> list[str]:
        """Read a condition; return the parts of its disjunction."""
        if depth > self.most_depth:
            raise self.tokens.error(f"WHERE is nested deeper than {self.most_depth} parentheses")
        parts = [self._conjunction(depth)]
        while self.tokens.accept("OR"):
            parts.append(self._conjunction(depth))
        return parts

    def require_end(self) -> None:
        if self.tokens.token.kind != "end":
            self.unsupported()

    def unsupported(self) -> NoReturn:
        raise self.tokens.error(f"mismatched input '{self.tokens.token.text}' in WHERE, which takes {SUPPORTED}")

    def expect(self, word: str) -> None:
        if not self.tokens.accept(word):
            self.unsupported()

    def _conjunction(self, depth: int) -> str:
        terms = [self._term(depth)]
        while self.tokens.accept("AND"):
            terms.append(self._term(depth))
        return " AND ".join(terms)

    def _term(self, depth: int) -> str:
        negation = ""
        while self.tokens.accept("NOT"):
            negation += "NOT "
        if not self.tokens.accept("("):
            return negation + self._test()
        inner = " OR ".join(self.conditions(depth + 1))
        self.expect(")")
        return f"{negation}({inner}){self._truth()}"

    def _truth(self) -> str:
        """Read IS [NOT] TRUE or FALSE, if it comes next."""
        if not self.tokens.accept("IS"):
            return ""
        negation = "NOT " if self.tokens.accept("NOT") else ""
        if self.tokens.token.key not in ("TRUE", "FALSE"):
            self.unsupported()
        return f" IS {negation}{self.tokens.advance().key}"

    def _test(self) -> str:
        tokens, column = self.tokens, self.column()
        if tokens.accept("IS"):
            negation = "NOT " if tokens.accept("NOT") else ""
            self.expect("NULL")
            return f"{column} IS {negation}NULL"
        if tokens.token.key in COMPARISONS:
            return f"{column} {tokens.advance().key} {self.literal()}"
        negation = "NOT " if tokens.accept("NOT") else ""
        if tokens.accept("BETWEEN"):
            low = self.literal()
            self.expect("AND")
            return f"{column} {negation}BETWEEN {low} AND {self.literal()}"
        self.expect("IN")
        return f"{column} {negation}IN ({', '.join(self._literals())})"

    def _literals(self) -> list[str]:
        self.expect("(")
        values = [self.literal()]
        while self.tokens.accept(","):
            values.append(self.literal())
        self.expect(")")
        return values


class _TextTokens:
    """The tokens of a whole text."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at = text, tokenize(text), 0

    @property
    def token(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def accept(self, *words: str) -> bool:
        if tuple(token.key for token in self._tokens[self._at : self._at + len(words)]) != words:
            return False
        self._at += len(words)
        return True

    def advance(self) -> Token:
        token = self.token
        self._at += 1
        return token

    def error(self, reason: str) -> InvalidPredicate:
        offset = self.token.start if self.token is not _END else len(self._text)
        return InvalidPredicate.at(self._text, offset, reason)


class _SparkGrammar(Grammar):
    """Spark's dialect, without what its settings may change.

    These are quotes in strings, and strings in double quotes.
    """

    def column(self) -> str:
        token = self.tokens.token
        if token.kind not in ("word", "name"):
            self.unsupported()
        self.tokens.advance()
        name = token.text[1:-1].replace("``", "`") if token.text[0] == "`" else token.text
        self.columns.setdefault(name)
        return quote(name)

    def literal(self) -> str:
        tokens = self.tokens
        sign = "-" if tokens.accept("-") else ""
        if tokens.token.kind == "number":
            return sign + tokens.advance().text
        if sign:
            self.unsupported()
        if tokens.token.key in ("TRUE", "FALSE", "NULL"):
            return tokens.advance().key
        if tokens.token.key in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"):
            return f"{tokens.advance().key} {self._string()}"
        if tokens.accept("CAST", "("):
            value = self.literal()
            self.expect("AS")
            type = self._type()
            self.expect(")")
            return f"CAST({value} AS {type})"
        return self._string()

    def _type(self) -> str:
        """Read a type: a word, or a word with numbers in parentheses."""
        token = self.tokens.advance()
        if not _TYPE.fullmatch(token.key):
            self.unsupported()
        if not self.tokens.accept("("):
            return token.key
        numbers = [self._number()]
        while self.tokens.accept(","):
            numbers.append(self._number())
        self.expect(")")
        return f"{token.key}({', '.join(numbers)})"

    def _number(self) -> str:
        if self.tokens.token.kind != "number":
            self.unsupported()
        return self.tokens.advance().text

    def _string(self) -> str:
        token = self.tokens.token
        plain = token.kind == "string" and token.text[0] == "'" and "\\" not in token.text
        if not plain and not (token.kind == "raw" and token.text[0] in "xX"):
            self.unsupported()
        return self.tokens.advance().text


def parse(text: str, columns: Sequence[Column]) -> list[str]:
    """Return the parts, in Spark's SQL, of a condition's disjunction.

    The condition must test these partition columns only. Raises InvalidPredicate for anything else.

    >>> parse("p=1 or (P in (2, 3) and not p is null)", [Column("p", "int")])
    ['`p` = 1', '(`P` IN (2, 3) AND NOT `p` IS NULL)']
    """
    require_characters(text)
    grammar = _SparkGrammar(_TextTokens(text), most_depth=MOST_STORED_DEPTH)
    parts = grammar.conditions()
    grammar.require_end()
    known_columns = {column.name.lower() for column in columns}
    for name in grammar.columns:
        if name.lower() not in known_columns:
            names = ", ".join(column.name for column in columns) or "none"
            raise InvalidPredicate(f"{name} is not a partition column in WHERE {text}: those of the table are {names}")
    return parts


def either(first: str, second: str, columns: Sequence[Column]) -> str:
    """Return the condition `first OR second`."""
    return " OR ".join([*parse(first, columns), *parse(second, columns)])


def without(first: str, second: str, columns: Sequence[Column]) -> str:
    """Return the condition `first AND NOT second`.

    It is true if the first condition is true and the second is not, also if the second is NULL.
    """
    parts = parse(first, columns)
    whole = parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"
    cut = f"{whole} AND ({' OR '.join(parse(second, columns))}) IS NOT TRUE"
    return " OR ".join(parse(cut, columns))  # raises an error if it is too deep to be read again
