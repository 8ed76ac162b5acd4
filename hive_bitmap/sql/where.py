"""openLooKeng's WHERE on partition columns, written anew in Spark's words.

There a name may stand in double quotes and a backslash in a string is itself; comparisons with `=` and IN, joined by
OR, were all that it took. Here AND, NOT, ranges, BETWEEN and IS NULL are understood too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hive_bitmap.errors import InvalidStatement
from hive_bitmap.metastore.table_info import literal, quote
from hive_bitmap.sql.cursor import Cursor
from hive_bitmap.sql.statements import Where

_COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
_TYPES = {"BIGINT", "INTEGER", "INT", "SMALLINT", "TINYINT", "REAL", "DOUBLE", "DECIMAL", "VARCHAR", "CHAR", "BOOLEAN"}
_SPARK_TYPES = {"REAL": "FLOAT", "VARCHAR": "STRING", "CHAR": "STRING"}
_DEEPEST = 50
_SUPPORTED = (
    "Unsupported WHERE expression. Only partition columns are supported, compared with literals (=, <>, <, <=, >, >=, "
    "IN, BETWEEN, IS NULL), joined by AND, OR and NOT, e.g. partition=1 or partition=2/partition in (1,2)"
)


def where(cursor: Cursor) -> Where:
    """The condition that begins here, to the end of the statement; InvalidStatement says what is not understood."""
    condition = _Condition(cursor)
    sql = condition.alternatives(0)
    if cursor.token.kind != "end":
        raise condition.unsupported()
    return Where(sql, tuple(condition.columns))


@dataclass(frozen=True)
class _Condition:
    """What is to be read, and the columns met so far, each once."""

    cursor: Cursor
    columns: dict[str, None] = field(default_factory=dict)

    def alternatives(self, depth: int) -> str:
        if depth > _DEEPEST:
            raise self.cursor.refusal(f"WHERE is nested deeper than {_DEEPEST} parentheses")
        found = [self._conjunction(depth)]
        while self.cursor.took("OR"):
            found.append(self._conjunction(depth))
        return " OR ".join(found)

    def _conjunction(self, depth: int) -> str:
        found = [self._term(depth)]
        while self.cursor.took("AND"):
            found.append(self._term(depth))
        return " AND ".join(found)

    def _term(self, depth: int) -> str:
        negation = ""
        while self.cursor.took("NOT"):
            negation += "NOT "
        if not self.cursor.took("("):
            return negation + self._test()
        inner = self.alternatives(depth + 1)
        self._expect(")")
        return f"{negation}({inner})"

    def _test(self) -> str:
        cursor, column = self.cursor, self._column()
        if cursor.took("IS"):
            negation = "NOT " if cursor.took("NOT") else ""
            self._expect("NULL")
            return f"{column} IS {negation}NULL"
        if cursor.token.key in _COMPARISONS:
            return f"{column} {cursor.take().key} {self._literal()}"
        negation = "NOT " if cursor.took("NOT") else ""
        if cursor.took("BETWEEN"):
            low = self._literal()
            self._expect("AND")
            return f"{column} {negation}BETWEEN {low} AND {self._literal()}"
        self._expect("IN")
        return f"{column} {negation}IN ({', '.join(self._literals())})"

    def _literals(self) -> list[str]:
        self._expect("(")
        found = [self._literal()]
        while self.cursor.took(","):
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
        sign = "-" if cursor.took("-") else ""
        if cursor.token.kind == "number":
            return sign + cursor.take().text
        if sign:
            raise self.unsupported()
        if cursor.token.key in ("TRUE", "FALSE"):
            return cursor.take().key
        if cursor.token.key in ("DATE", "TIMESTAMP"):
            return f"{cursor.take().key} {self._string()}"
        if cursor.token.key in _TYPES:
            type = cursor.take().key
            return f"CAST({self._string()} AS {_SPARK_TYPES.get(type, type)})"
        return self._string()

    def _string(self) -> str:
        if self.cursor.token.text[0] != "'":
            raise self.unsupported()
        return literal(self.cursor.string(escapes=False))

    def _expect(self, word: str) -> None:
        if not self.cursor.took(word):
            raise self.unsupported()

    def unsupported(self) -> InvalidStatement:
        return self.cursor.refusal(f"mismatched input '{self.cursor.token.text}'. {_SUPPORTED}")
