"""Read the tokens of an index statement, for parsing by recursive descent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from hive_bitmap.core.columns import KeyText
from hive_bitmap.core.grammar.script import split, syntax_error
from hive_bitmap.core.grammar.statements import TableName
from hive_bitmap.core.predicates.tokens import Tokens, key_text
from hive_bitmap.errors import InvalidPredicate, InvalidStatement

_Item = TypeVar("_Item")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Cursor(Tokens):
    """A position in the tokens of one statement.

    Methods raise InvalidStatement for an unexpected token. `is_indexable` says whether a table may have indexes; by
    default, tables of the session's own catalog may.
    """

    def __init__(self, text: str, is_indexable: Callable[[TableName], bool] = TableName.is_own) -> None:
        self._is_indexable = is_indexable
        parts = split(text)
        if len(parts) != 1:
            place = f"line {parts[1].line}, column {parts[1].column}: " if parts else ""
            raise InvalidStatement(f"{place}expected one statement, got {len(parts)}")
        try:
            super().__init__(parts[0].in_place)
        except InvalidPredicate as e:  # `split` and this lexer have different rules for the end of a quote or comment
            raise InvalidStatement(str(e)) from e

    def expect(self, *words: str) -> None:
        """Consume these words or symbols, which must come next."""
        for word in words:
            if not self.accept(word):
                raise self.mismatch(word)

    def mismatch(self, *expected: str) -> InvalidStatement:
        """Return an error that names the next token and what was expected instead."""
        return self.error(f"mismatched input '{self.token.text}', expecting {' or '.join(expected)}")

    def error(self, reason: str) -> InvalidStatement:
        """Return an error with this reason, and line and column of the next token."""
        return syntax_error(self.text, self.offset, reason)

    def end(self, *expected: str) -> None:
        """Require the end of the statement.

        `expected` are the clauses that could follow, which the error names.
        """
        if self.token.kind != "end":
            raise self.mismatch(*expected, "the end")

    def name(self) -> str:
        """Consume an identifier and return it without quotes.

        An identifier is a word, or text in backticks or (openLooKeng) double quotes.
        """
        token = self.token
        if token.kind not in ("word", "name") and not (token.kind == "string" and token.text[0] == '"'):
            raise self.mismatch("a name")
        name = token.text[1:-1] if token.text[0] == '"' else token.name
        if not name:
            raise self.error("a name cannot be empty")
        self.at += 1
        return name

    def path(self) -> tuple[str, ...]:
        """Consume a dotted name and return its parts."""
        parts = [self.name()]
        while self.accept("."):
            parts.append(self.name())
        return tuple(parts)

    def table(self) -> TableName:
        """Consume the name of a table, with or without its database and catalog."""
        start = self.at
        parts = self.path()
        if len(parts) > 3:
            self.at = start
            raise self.error(f"a table is [catalog.][database.]table, but this name has {len(parts)} parts")
        return TableName(*reversed(parts))

    def is_foreign(self, table: TableName) -> bool:
        """Return whether a table cannot have indexes, so that Spark must run the statement."""
        return not self._is_indexable(table)

    def string(self, *, escapes: bool = True) -> str:
        """Consume a quoted string and return its value.

        A quote inside the string is doubled or, with `escapes`, preceded by a backslash.
        """
        if self.token.kind != "string":
            raise self.mismatch("a quoted string")
        first = self.advance()
        quote, pieces, end = first.text[0], [first.text[1:-1]], first.end
        while self.token.kind == "string" and self.token.start == end and self.token.text[0] == quote:
            pieces.append(self.token.text[1:-1])
            end = self.advance().end
        return quote.join(map(_unescaped, pieces) if escapes else pieces)

    def key(self) -> str | KeyText:
        """Consume a key of an index.

        A key is the name of a column, or `expression AS name`.
        """
        start, depth = self.at, 0
        for end in range(start, len(self.tokens)):
            key = self.tokens[end].key
            if depth == 0 and key in (",", ")"):
                break
            depth += (key in ("(", "[")) - (key in (")", "]"))
        else:
            return self.name()
        text = self.text[self.tokens[start].start : self.tokens[end].start] if end > start else ""
        if expression := key_text(text):
            self.at = end
            return expression
        if end > start + 1 and any(token.kind not in ("word", "name") for token in self.tokens[start:end]):
            raise self.error(f"a key that is an expression needs a name: {text.strip()} AS name")
        return self.name()

    def items(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Consume a list of items in parentheses, separated by commas.

        The list must have at least one item. `item` consumes an item and returns its value. Return the values of the
        items.
        """
        self.expect("(")
        consumed = [item()]
        while self.accept(","):
            consumed.append(item())
        if not self.accept(")"):
            raise self.mismatch(",", ")")
        return tuple(consumed)


def _unescaped(text: str) -> str:
    """Resolve backslash escapes as Hive and Spark do."""
    return _ESCAPE.sub(lambda match: _escaped(match[1]), text) if "\\" in text else text


def _escaped(code: str) -> str:
    if len(code) > 1:
        return chr(int(code[1:], 16) if code[0] == "u" else int(code, 8))
    return _ESCAPED.get(code, code)
