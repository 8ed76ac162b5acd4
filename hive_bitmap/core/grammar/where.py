"""Translate openLooKeng's WHERE on partition columns to Spark SQL.

In openLooKeng a name may be in double quotes, and a backslash in a string is not an escape. Its WHERE allowed only `=`
and IN, joined by OR; this one also takes AND, NOT, ranges, BETWEEN and IS NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

from hive_bitmap.core.grammar.cursor import Cursor
from hive_bitmap.core.grammar.statements import Where
from hive_bitmap.core.index.partition_conditions import Grammar
from hive_bitmap.core.table_info import literal, quote, string_expression

_TYPES = {"BIGINT", "INTEGER", "INT", "SMALLINT", "TINYINT", "REAL", "DOUBLE", "DECIMAL", "VARCHAR", "CHAR", "BOOLEAN"}
_SPARK_TYPES = {"REAL": "FLOAT", "VARCHAR": "STRING", "CHAR": "STRING"}


def where(cursor: Cursor) -> Where:
    """Parse the condition from here to the end of the statement.

    Raises InvalidStatement for anything else.
    """
    condition = _Condition(cursor)
    sql = " OR ".join(condition.conditions())
    condition.require_end()
    return Where(sql, tuple(condition.columns))


@dataclass(frozen=True)
class _Condition(Grammar):
    """A condition in openLooKeng's syntax."""

    tokens: Cursor

    def column(self) -> str:
        kind, text = self.tokens.token.kind, self.tokens.token.text
        if kind not in ("word", "name") and text[0] != '"':
            self.unsupported()
        name = self.tokens.name()
        self.columns.setdefault(name)
        return quote(name)

    def literal(self) -> str:
        cursor = self.tokens
        sign = "-" if cursor.accept("-") else ""
        if cursor.token.kind == "number":
            return sign + cursor.advance().text
        if sign:
            self.unsupported()
        if cursor.token.key in ("TRUE", "FALSE"):
            return cursor.advance().key
        if cursor.token.key in ("DATE", "TIMESTAMP"):
            return f"{cursor.advance().key} {literal(self._string())}"
        if cursor.token.key in _TYPES:
            type = cursor.advance().key
            return f"CAST({string_expression(self._string())} AS {_SPARK_TYPES.get(type, type)})"
        return string_expression(self._string())

    def _string(self) -> str:
        if self.tokens.token.text[0] != "'":
            self.unsupported()
        return self.tokens.string(escapes=False)
