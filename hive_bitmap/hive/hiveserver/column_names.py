"""Resolve the column names in a predicate."""

from __future__ import annotations

from collections.abc import Iterable

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.tokens import Token, Tokens

# Words that without quotes are keywords, or may be keywords, depending on the session's settings.
_NEVER_BARE = {"TRUE", "FALSE", "NULL", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "USER"}
_NEVER_BARE |= {"SESSION_USER", "LOCALTIMESTAMP"}
# The words where the parser splits a predicate into leaves.
_STRUCTURE = {"AND", "OR", "NOT", "BETWEEN", "CASE", "END"}


class Names:
    """The columns of a table by name, ignoring case.

    A column name may be qualified by `table`, a single name or alias without quotes (a dot in it is no separator). If
    `table` is None, no column name may be qualified.
    """

    def __init__(self, columns: Iterable[Column], table: str | None) -> None:
        self._columns: dict[str, Column | None] = {}
        for column in columns:
            lower = column.name.lower()
            self._columns[lower] = None if lower in self._columns else column  # ambiguous if only the case differs
        self._qualifiers = {(), () if table is None else (table.lower(),)}

    def column(self, tokens: Tokens) -> Column | None:
        """Read a column name, and return the column.

        Return None if no column or more than one column has the name.
        """
        first, parts = tokens.token, _path(tokens)
        if not parts or tuple(parts[:-1]) not in self._qualifiers or (len(parts) == 1 and first.key in _NEVER_BARE):
            return None
        return self._columns.get(parts[-1])

    def hides_structure(self, tokens: Iterable[Token]) -> bool:
        """Return whether a keyword among the tokens may be a column.

        The keywords are AND, OR, NOT, BETWEEN, CASE and END, without quotes. A keyword may be a column if the table has
        a column of this name. END without a CASE does not count, because END can then only be a column, and hides
        nothing.
        """
        words = {token.key for token in tokens if token.key in _STRUCTURE}
        if "CASE" not in words:
            words.discard("END")  # without CASE, as in `start < 1 AND end > 2`, END can only be a column
        return any(word.lower() in self._columns for word in words)


def _path(tokens: Tokens) -> list[str]:
    """Read a dotted name and return its parts, unquoted and in lower case.

    The result is empty if no name comes next, or if the name ends with a dot.
    """
    parts = []
    while tokens.token.kind in ("word", "name"):
        parts.append(tokens.advance().name.lower())
        if not tokens.accept("."):
            return parts
    return []
