"""Translate openLooKeng's WHERE on partition columns to Spark SQL.

In openLooKeng a name may be in double quotes, and a backslash in a string is not an escape. The WHERE of openLooKeng
allowed only `=` and IN, joined by OR. This module also allows AND, NOT, ranges, BETWEEN and IS NULL.
"""

from __future__ import annotations

from hive_bitmap.core.grammar.cursor import Cursor
from hive_bitmap.core.grammar.statements import Where
from hive_bitmap.core.index.partition_conditions import PartitionCondition
from hive_bitmap.core.predicates.condition_grammar import OPENLOOKENG
from hive_bitmap.core.table_info import literal, string_expression

_TYPES = {"BIGINT", "INTEGER", "INT", "SMALLINT", "TINYINT", "REAL", "DOUBLE", "DECIMAL", "VARCHAR", "CHAR", "BOOLEAN"}
_SPARK_TYPES = {"REAL": "FLOAT", "VARCHAR": "STRING", "CHAR": "STRING"}


def where(cursor: Cursor) -> Where:
    """Parse the condition from the cursor to the end of the statement.

    Raises InvalidStatement if the rest of the statement is not a condition that this module allows.
    """
    condition = _Condition(cursor)
    return Where(" OR ".join(condition.parts()), tuple(condition.columns))


class _Condition(PartitionCondition):
    """A condition in openLooKeng's syntax."""

    dialect = OPENLOOKENG

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self._cursor = cursor

    def column(self) -> str:
        kind, text = self._cursor.token.kind, self._cursor.token.text
        if kind not in ("word", "name") and text[0] != '"':
            self.unsupported()
        return self._cursor.name()

    def literal(self) -> str:
        if self._cursor.token.key in _TYPES:
            type = self._cursor.advance().key
            return f"CAST({string_expression(self._text())} AS {_SPARK_TYPES.get(type, type)})"
        return string_expression(self._text()) if self._cursor.token.kind == "string" else super().literal()

    def string(self) -> str:
        return literal(self._text())

    def _text(self) -> str:
        if self._cursor.token.text[0] != "'":
            self.unsupported()
        return self._cursor.string(escapes=False)
