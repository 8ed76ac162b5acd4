"""Split SQL scripts into statements, and return a statement's first words.

Only quotes and comments are recognized, by the rules of Spark's lexer: comments nest. So every Spark statement is
accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hive_bitmap.errors import InvalidStatement

_PIECE = re.compile(
    r"""(?P<space>\s+|--(?:\\\n|[^\r\n])*)
    |(?P<comment>/\*(?!\+))
    |(?P<quoted>r'[^']*'|r"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    |(?P<unclosed>['"`])
    |(?P<end>;)
    |(?P<word>\w+)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True)
class Part:
    """A statement of a script, without its semicolon.

    The statement begins at `line` and `column`, counted from 1.
    """

    text: str
    line: int
    column: int

    @property
    def in_place(self) -> str:
        """The text, padded with newlines and spaces to its position in the script.

        If this text is parsed, an error has the line and column in the script.
        """
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


def split(text: str) -> list[Part]:
    """Split a script at each `;` outside quotes and comments.

    Empty statements are left out. Raises InvalidStatement if a quote or comment is not closed.

    >>> [(part.text, part.line) for part in split("SELECT ';' -- a;b\\n; ;SHOW INDEX")]
    [("SELECT ';'", 1), ('SHOW INDEX', 2)]
    """
    parts = []
    first = last = 0  # start and end of the current statement, without leading and trailing space
    for kind, start, end in [*_pieces(text), ("end", len(text), len(text))]:
        if kind == "unclosed":
            raise syntax_error(text, start, f"this {text[start:end]} is not closed")
        if kind == "end":
            if last > first:
                parts.append(Part(text[first:last], *_place(text, first)))
            first = last = end
        elif kind != "space":
            first, last = start if last == first else first, end
    return parts


def is_complete(text: str) -> bool:
    """Return whether the text ends with the semicolon of a statement.

    Space and comments after the semicolon are ignored.

    >>> is_complete("SELECT 1; -- done"), is_complete("SELECT ';")
    (True, False)
    """
    kinds = [kind for kind, _, _ in _pieces(text) if kind != "space"]
    return kinds[-1:] == ["end"] and "unclosed" not in kinds


def first_words(text: str, most: int) -> list[str]:
    r"""Return at most `most` of a statement's first words, in upper case.

    The words end before the first quote or symbol.

    >>> first_words("/* a */ create -- b\n INDEX i ON t", 2)
    ['CREATE', 'INDEX']
    """
    words: list[str] = []
    for kind, start, end in _pieces(text):
        if len(words) == most or kind not in ("space", "word"):
            break
        if kind == "word":
            words.append(text[start:end].upper())
    return words


def syntax_error(text: str, offset: int, reason: str) -> InvalidStatement:
    """Return a syntax error at an offset of `text`.

    The message of the error has the `reason`, and the line and column of the offset, counted from 1.
    """
    line, column = _place(text, offset)
    return InvalidStatement(f"line {line}, column {column}: {reason}")


def _pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each piece of the text.

    The kinds are `space` (also for comments), `quoted`, `unclosed` (a quote or comment), `end` (a semicolon), `word`
    and `other`.
    """
    at = 0
    while match := _PIECE.match(text, at):
        kind, start, at = str(match.lastgroup), at, match.end()
        if kind == "comment":
            close = _comment_end(text, at)
            kind, at = ("space", close) if close else ("unclosed", at)
        yield kind, start, at


def _comment_end(text: str, at: int) -> int:
    """Return the offset after the end of a comment.

    The result is 0 if the comment is not closed. `at` is the offset after the opening `/*` of the comment. Nested
    comments are part of the comment.
    """
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return 0


def _place(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
