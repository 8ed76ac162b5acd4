"""The words of a whole query: Spark's tokens, which bracket closes which, and what parameters stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hive_bitmap.errors import Unsupported
from hive_bitmap.query.names import path_at
from hive_bitmap.query.predicates import closers
from hive_bitmap.query.tokens import Token, tokenize

QUERY_WORDS = ("SELECT", "WITH")
_BY_WORDS = ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE")
# What could make a query see that a scan was replaced, or names that stand in no token.
_TELLTALE = {"_METADATA", "INPUT_FILE_NAME", "INPUT_FILE_BLOCK_START", "INPUT_FILE_BLOCK_LENGTH", "IDENTIFIER"}


@dataclass(frozen=True)
class Words:
    """The tokens of a statement; places are numbers of tokens, and the place behind the last one is `end`.

    `spelled` holds, by the offset of a parameter's first character, the literal that it stands for, with the offset
    behind the parameter.
    """

    text: str
    tokens: Sequence[Token]
    closers: Mapping[int, int]
    spelled: Mapping[int, tuple[int, str]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return len(self.tokens)

    def key(self, at: int) -> str:
        """The word or symbol at a place, in upper case; empty for names, literals and behind the end."""
        return self.tokens[at].key if 0 <= at < len(self.tokens) else ""

    def name(self, at: int) -> str:
        """The identifier at a place, unquoted and in lower case; empty if there is none."""
        parts, _ = path_at(self.tokens[at : at + 1], 0)
        return parts[0] if parts else ""

    def outer(self, at: int, end: int) -> Iterator[int]:
        """The places from one to another that lie in no brackets (but for the opening ones)."""
        while at < end:
            yield at
            at = self.closers.get(at, at) + 1

    def spans(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """What stands between the outer commas."""
        start = at
        for place in self.outer(at, end):
            if self.key(place) == ",":
                yield start, place
                start = place + 1
        if start < end:
            yield start, end

    def opens_query(self, at: int) -> bool:
        """Whether the bracket at this place opens a query."""
        while self.key(at) == "(":
            at += 1
            if self.key(at) in QUERY_WORDS:
                return True
        return False

    def begins_clause(self, at: int) -> bool:
        """Whether the keyword at this place is that of a clause, and no name: GROUP BY, but not FROM a `group`."""
        key = self.key(at)
        if key in _BY_WORDS:
            return self.key(at + 1) == "BY"
        # `a IS DISTINCT FROM b`
        return not (key == "FROM" and self.key(at - 1) == "DISTINCT" and self.key(at - 2) in ("IS", "NOT"))

    def is_spelled(self, at: int, end: int) -> bool:
        """Whether no `?` stands there, and of named parameters none whose value is not spelled."""
        tokens = self.tokens[at:end]
        return not any(token.key == "?" or (token.key == ":" and token.start not in self.spelled) for token in tokens)

    def source(self, at: int, end: int) -> str:
        """The text of these tokens, parameters as literals."""
        first, last = self.tokens[at].start, self.tokens[end - 1].end
        pieces, copied = [], first
        for start in sorted(start for start in self.spelled if first <= start < last):
            behind, literal = self.spelled[start]
            before, after = (
                " " * text.isalnum() for text in (self.text[start - 1 : start], self.text[behind : behind + 1])
            )
            pieces += [self.text[copied:start], before, literal, after]  # a word of its own: `BETWEEN:low AND :high`
            copied = behind
        return "".join([*pieces, self.text[copied:last]])


def words(text: str, tokens: Sequence[Token], spelled: Mapping[int, tuple[int, str]]) -> Words:
    """The words of a statement. Raises Unsupported, InvalidPredicate too, for one that is not to be looked into."""
    if tokens and tokens[-1].key == ";":
        tokens = tokens[:-1]
    if not tokens or tokens[-1].kind == "odd" or "${" in text:
        raise Unsupported("it holds a hint, or words that settings change")
    for at, token in enumerate(tokens):
        if token.key in _TELLTALE or token.text.strip("`").upper() in _TELLTALE:
            raise Unsupported(f"it asks for {token.text}")
        if token.key == "|" and at + 1 < len(tokens) and (tokens[at + 1].key == ">" or tokens[at + 1].kind == "word"):
            raise Unsupported("it may be a pipe")
        if token.key == ";":
            raise Unsupported("it is several statements")
        if token.kind in ("word", "name") and not token.text.isascii() and any(map(_is_like_others, token.text)):
            raise Unsupported(f"Spark may take the name {token.text} for another")
    return Words(text, tokens, closers(text, tokens), spelled)


def read(text: str) -> Words:
    """The words of a text without parameters."""
    return words(text, tokenize(text), {})


def _is_like_others(letter: str) -> bool:
    """Whether Java's equalsIgnoreCase, by which Spark compares names, takes a letter for one that `lower` does not."""
    upper, lower = letter.upper(), letter.lower()
    return len(lower) > 1 or (len(upper) == 1 and upper.lower() != lower)
