"""Reading the tokens of an index statement one behind the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from hive_bitmap.errors import InvalidPredicate, InvalidStatement
from hive_bitmap.predicates.tokens import Token, tokenize
from hive_bitmap.sql.script import split, syntax_error
from hive_bitmap.sql.statements import TableName

_Item = TypeVar("_Item")
_END = Token("end", "<EOF>", -1, "")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Cursor:
    """A place in the tokens of one statement. What stands where something else should is an InvalidStatement."""

    def __init__(self, text: str) -> None:
        parts = split(text)
        if len(parts) != 1:
            place = f"line {parts[1].line}, column {parts[1].column}: " if parts else ""
            raise InvalidStatement(f"{place}one statement is expected, got {len(parts)}")
        self.text = parts[0].in_place
        try:
            self._tokens = tokenize(self.text)
        except InvalidPredicate as e:  # what `split` takes for closed and this lexer does not
            raise InvalidStatement(str(e)) from e
        self._at = 0

    @property
    def token(self) -> Token:
        """The next token; behind the last one, one of kind `end`."""
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def sees(self, *words: str) -> bool:
        """Whether these words or symbols come next."""
        return tuple(token.key for token in self._tokens[self._at : self._at + len(words)]) == words

    def took(self, *words: str) -> bool:
        """Step behind these words or symbols, if they come next."""
        if not self.sees(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Step behind these words or symbols, which must come next."""
        for word in words:
            if not self.took(word):
                raise self.mismatch(word)

    def take(self) -> Token:
        """Step behind the next token, whatever it is."""
        token = self.token
        self._at += 1
        return token

    def mismatch(self, *expected: str) -> InvalidStatement:
        """The error that says what stands here, and what may."""
        return self.refusal(f"mismatched input '{self.token.text}', expecting {' or '.join(expected)}")

    def refusal(self, reason: str) -> InvalidStatement:
        """The error that says why not, with the place."""
        offset = self.token.start if self.token is not _END else len(self.text)
        return syntax_error(self.text, offset, reason)

    def end(self, *expected: str) -> None:
        """Nothing may be left; `expected` are the clauses that might have come."""
        if self.token is not _END:
            raise self.mismatch(*expected, "the end")

    def name(self) -> str:
        """An identifier: a word, or anything in backticks or (openLooKeng) double quotes."""
        token = self.token
        if token.kind not in ("word", "name") and not (token.kind == "string" and token.text[0] == '"'):
            raise self.mismatch("a name")
        self._at += 1
        if token.text[0] not in '`"':
            return token.text
        name = token.text[1:-1].replace("``", "`") if token.text[0] == "`" else token.text[1:-1]
        if not name:
            self._at -= 1
            raise self.refusal("a name cannot be empty")
        return name

    def path(self) -> tuple[str, ...]:
        """The parts of a dotted name."""
        parts = [self.name()]
        while self.took("."):
            parts.append(self.name())
        return tuple(parts)

    def table(self) -> TableName:
        """A table: its name, behind a database and a catalog where the text has them."""
        start = self._at
        parts = self.path()
        if len(parts) > 3:
            self._at = start
            raise self.refusal(f"a table is [catalog.][database.]table, and this name has {len(parts)} parts")
        return TableName(*reversed(parts))

    def string(self, *, escapes: bool = True) -> str:
        """The value of a quoted string; a quote in it is written twice, or (with `escapes`) behind a backslash."""
        if self.token.kind != "string":
            raise self.mismatch("a quoted string")
        first = self.take()
        quote, pieces, end = first.text[0], [first.text[1:-1]], first.end
        while self.token.kind == "string" and self.token.start == end and self.token.text[0] == quote:
            pieces.append(self.token.text[1:-1])
            end = self.take().end
        return quote.join(map(_unescaped, pieces) if escapes else pieces)

    def items(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """A list in parentheses, of one item or more."""
        self.expect("(")
        found = [item()]
        while self.took(","):
            found.append(item())
        if not self.took(")"):
            raise self.mismatch(",", ")")
        return tuple(found)


def _unescaped(text: str) -> str:
    """As Hive and Spark read a string."""
    return _ESCAPE.sub(lambda found: _escaped(found[1]), text) if "\\" in text else text


def _escaped(code: str) -> str:
    if len(code) > 1:
        return chr(int(code[1:], 16) if code[0] == "u" else int(code, 8))
    return _ESCAPED.get(code, code)
