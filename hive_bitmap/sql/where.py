"""Translate openLooKeng's WHERE on partition columns to Spark SQL.

In openLooKeng a name may be in double quotes, and a backslash in a string is no escape. Its WHERE allowed only `=` and
IN, joined by OR; this one also takes AND, NOT, ranges, BETWEEN and IS NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hive_bitmap.errors import InvalidStatement
from hive_bitmap.metastore.table_info import literal, quote, string_expression
from hive_bitmap.sql.cursor import Cursor
from hive_bitmap.sql.statements import Where

_COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
_TYPES = {"BIGINT", "INTEGER", "INT", "SMALLINT", "TINYINT", "REAL", "DOUBLE", "DECIMAL", "VARCHAR", "CHAR", "BOOLEAN"}
_SPARK_TYPES = {"REAL": "FLOAT", "VARCHAR": "STRING", "CHAR": "STRING"}
_MAX_DEPTH = 50
_SUPPORTED = (
    "Unsupported WHERE expression. Only partition columns are supported, compared with literals (=, <>, <, <=, >, >=, "
    "IN, BETWEEN, IS NULL), joined by AND, OR and NOT, e.g. partition=1 or partition=2/partition in (1,2)"
)


def where(cursor: Cursor) -> Where:
    """Parse the condition from here to the end of the statement. Raises InvalidStatement for anything else."""
    condition = _Condition(cursor)
    sql = condition.alternatives(0)
    if cursor.token.kind != "end":
        raise condition.unsupported()
    return Where(sql, tuple(condition.columns))


@dataclass(frozen=True)
class _Condition:
    """A condition that is being parsed, and the columns that it names so far (a dict for its order)."""

    cursor: Cursor
    columns: dict[str, None] = field(default_factory=dict)

    def alternatives(self, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise self.cursor.error(f"WHERE is nested deeper than {_MAX_DEPTH} parentheses")
        found = [self._conjunction(depth)]
        while self.cursor.accept("OR"):
            found.append(self._conjunction(depth))
        return " OR ".join(found)

    def _conjunction(self, depth: int) -> str:
        found = [self._term(depth)]
        while self.cursor.accept("AND"):
            found.append(self._term(depth))
        return " AND ".join(found)

    def _term(self, depth: int) -> str:
        negation = ""
        while self.cursor.accept("NOT"):
            negation += "NOT "
        if not self.cursor.accept("("):
            return negation + self._test()
        inner = self.alternatives(depth + 1)
        self._expect(")")
        return f"{negation}({inner})"

    def _test(self) -> str:
        cursor, column = self.cursor, self._column()
        if cursor.accept("IS"):
            negation = "NOT " if cursor.accept("NOT") else ""
            self._expect("NULL")
            return f"{column} IS {negation}NULL"
        if cursor.token.key in _COMPARISONS:
            return f"{column} {cursor.advance().key} {self._literal()}"
        negation = "NOT " if cursor.accept("NOT") else ""
        if cursor.accept("BETWEEN"):
            low = self._literal()
            self._expect("AND")
            return f"{column} {negation}BETWEEN {low} AND {self._literal()}"
        self._expect("IN")
        return f"{column} {negation}IN ({', '.join(self._literals())})"

    def _literals(self) -> list[str]:
        self._expect("(")
        found = [self._literal()]
        while self.cursor.accept(","):
            found.append(self._literal())
        self._expect(")")
        return found

    def _column(self) -> str:
        kind, text = self.cursor.token.kind, self.cursor.token.text
        if kind not in ("word", "name") and text[0] != '"':
            raise self.unsupported()
        name = self.cursor.name()
        self.columns.setdefault(name)
        return quote(name)

    def _literal(self) -> str:
        cursor = self.cursor
        sign = "-" if cursor.accept("-") else ""
        if cursor.token.kind == "number":
            return sign + cursor.advance().text
        if sign:
            raise self.unsupported()
        if cursor.token.key in ("TRUE", "FALSE"):
            return cursor.advance().key
        if cursor.token.key in ("DATE", "TIMESTAMP"):
            return f"{cursor.advance().key} {literal(self._string())}"
        if cursor.token.key in _TYPES:
            type = cursor.advance().key
            return f"CAST({string_expression(self._string())} AS {_SPARK_TYPES.get(type, type)})"
        return string_expression(self._string())

    def _string(self) -> str:
        if self.cursor.token.text[0] != "'":
            raise self.unsupported()
        return self.cursor.string(escapes=False)

    def _expect(self, word: str) -> None:
        if not self.cursor.accept(word):
            raise self.unsupported()

    def unsupported(self) -> InvalidStatement:
        return self.cursor.error(f"mismatched input '{self.cursor.token.text}'. {_SUPPORTED}")
