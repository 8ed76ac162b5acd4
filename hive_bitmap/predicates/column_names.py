"""Which column a name in a predicate means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hive_bitmap.columns import Column
from hive_bitmap.predicates.tokens import Token

# As bare words these are the keyword, or what the session's settings say, before they are a column.
_NEVER_BARE = {"TRUE", "FALSE", "NULL", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "USER"}
_NEVER_BARE |= {"SESSION_USER", "LOCALTIMESTAMP"}
_STRUCTURE = {"AND", "OR", "NOT", "BETWEEN", "CASE", "END"}


class Names:
    """The columns of a table, found by name whatever the case, alone or behind the table's name.

    That is one name, unquoted; a dot in it separates nothing.
    """

    def __init__(self, columns: Iterable[Column], table: str | None) -> None:
        self._columns: dict[str, Column | None] = {}
        for column in columns:
            lower = column.name.lower()
            self._columns[lower] = None if lower in self._columns else column  # two that differ in case: neither
        self._qualifiers = {(), () if table is None else (table.lower(),)}

    def column_at(self, tokens: Sequence[Token], at: int) -> tuple[Column, int] | None:
        """The column named at a token, and where the next token stands; None if it names none."""
        parts, after = path_at(tokens, at)
        column = self.resolve(parts)
        bare = len(parts) == 1 and tokens[at].key in _NEVER_BARE
        return None if column is None or bare else (column, after)

    def resolve(self, parts: Sequence[str]) -> Column | None:
        """The column of a dotted name, whose parts are in lower case; None for none, or for one of two such columns."""
        *qualifier, name = parts or [""]
        return self._columns.get(name) if tuple(qualifier) in self._qualifiers else None

    def unqualified(self, tokens: Sequence[Token], text: str) -> str:
        """The source of the tokens with `t.` left out before columns, to be read where there is no such table."""
        pieces, copied, at = [], tokens[0].start, 0
        while at < len(tokens):
            parts, after = path_at(tokens, at)
            if len(parts) > 1 and self.resolve(parts) is not None:
                pieces.append(text[copied : tokens[at].start])
                copied = tokens[after - 1].start
            at = max(after, at + 1)
        return "".join([*pieces, text[copied : tokens[-1].end]])

    def holds(self, name: str) -> bool:
        """Whether one column or more has this name."""
        return name.lower() in self._columns

    def hides_structure(self, tokens: Iterable[Token]) -> bool:
        """Whether a bare AND, OR, NOT, BETWEEN or CASE .. END might be a column of that name."""
        words = {token.key for token in tokens if token.key in _STRUCTURE}
        if "CASE" not in words:
            words.discard("END")  # `start < 1 AND end > 2` is plain
        return any(self.holds(word) for word in words)


def path_at(tokens: Sequence[Token], at: int) -> tuple[list[str], int]:
    """The parts of the dotted name that begins at a token, in lower case and unquoted, and where it ends."""
    parts: list[str] = []
    while at < len(tokens) and tokens[at].kind in ("word", "name"):
        text = tokens[at].text
        parts.append((text[1:-1].replace("``", "`") if text[0] == "`" else text).lower())
        at += 1
        if at == len(tokens) or tokens[at].key != ".":
            return parts, at
        at += 1
    return [], at
