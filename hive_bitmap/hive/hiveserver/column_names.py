"""Resolve the column names in a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.tokens import Token

# Unquoted, these are keywords, or the session's settings decide whether a keyword or a column is meant.
_NEVER_BARE = {"TRUE", "FALSE", "NULL", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "USER"}
_NEVER_BARE |= {"SESSION_USER", "LOCALTIMESTAMP"}
# The words where the parser splits a predicate into leaves.
_STRUCTURE = {"AND", "OR", "NOT", "BETWEEN", "CASE", "END"}


class Names:
    """The columns of a table by name, ignoring case.

    A column name may be qualified by `table`, a single name or alias without quotes; a dot in it is not a separator.
    """

    def __init__(self, columns: Iterable[Column], table: str | None) -> None:
        self._columns: dict[str, Column | None] = {}
        for column in columns:
            lower = column.name.lower()
            self._columns[lower] = None if lower in self._columns else column  # ambiguous if only the case differs
        self._qualifiers = {(), () if table is None else (table.lower(),)}

    def column_at(self, tokens: Sequence[Token], at: int) -> tuple[Column, int] | None:
        """Return the column named at a token, and the position after its name; None without a column."""
        parts, after = path_at(tokens, at)
        column = self.resolve(parts)
        bare = len(parts) == 1 and tokens[at].key in _NEVER_BARE
        return None if column is None or bare else (column, after)

    def resolve(self, parts: Sequence[str]) -> Column | None:
        """Return the column of a dotted name, given as lower-case parts; None unless there is exactly one."""
        *qualifier, name = parts or [""]
        return self._columns.get(name) if tuple(qualifier) in self._qualifiers else None

    def holds(self, name: str) -> bool:
        """Return whether at least one column has this name, ignoring case."""
        return name.lower() in self._columns

    def hides_structure(self, tokens: Iterable[Token]) -> bool:
        """Return whether one of the unquoted keywords AND, OR, NOT, BETWEEN, CASE, END may be a column."""
        words = {token.key for token in tokens if token.key in _STRUCTURE}
        if "CASE" not in words:
            words.discard("END")  # without CASE, as in `start < 1 AND end > 2`, END can only be a column
        return any(self.holds(word) for word in words)


def path_at(tokens: Sequence[Token], at: int) -> tuple[list[str], int]:
    """Return the parts of the dotted name at a token, and the position after the name.

    The parts are unquoted and in lower case. There are no parts if no name begins at the token, or if the name ends
    with a dot.
    """
    parts: list[str] = []
    while at < len(tokens) and tokens[at].kind in ("word", "name"):
        text = tokens[at].text
        parts.append((text[1:-1].replace("``", "`") if text[0] == "`" else text).lower())
        at += 1
        if at == len(tokens) or tokens[at].key != ".":
            return parts, at
        at += 1
    return [], at
