"""What the parameters of a query stand for, as literals that can be looked up; values of other kinds are left to Spark.

`:name` takes its value from a dictionary, `?` from a list, in the order of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from hive_bitmap.index.metastore import literal
from hive_bitmap.query.tokens import Token

Arguments = Mapping[str, Any] | Sequence[Any] | None
# Behind other words and names a colon may begin the field of a VARIANT.
_WORDS_BEFORE = {"SELECT", "DISTINCT", "WHERE", "HAVING", "ON", "BY", "LIMIT", "OFFSET", "AND", "OR", "NOT", "BETWEEN"}
_WORDS_BEFORE |= {"LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "CASE", "WHEN", "THEN", "ELSE", "FROM", "DIV"}


def spelled(tokens: Sequence[Token], arguments: Arguments) -> dict[int, tuple[int, str]]:
    """By the offset of a parameter, the offset behind it and its literal."""
    if not arguments:
        return {}
    if isinstance(arguments, Mapping):
        return _named(tokens, arguments)
    marks = [token for token in tokens if token.key == "?"]
    texts = (_spelled(value) for value in arguments)
    return {mark.start: (mark.end, text) for mark, text in zip(marks, texts, strict=False) if text}


def _named(tokens: Sequence[Token], arguments: Mapping[str, Any]) -> dict[int, tuple[int, str]]:
    found = {}
    for at, token in enumerate(tokens[:-1]):
        name = tokens[at + 1]
        begins = token.key == ":" and name.start == token.end and at > 0 and _may_precede(tokens[at - 1])
        if begins and (text := _spelled(arguments.get(name.text))):
            found[token.start] = (name.end, text)
    return found


def _may_precede(token: Token) -> bool:
    """Whether a colon behind this begins a parameter, and is not that of `variant:field` or `a[x:y]`."""
    if token.kind == "word":
        return token.key in _WORDS_BEFORE
    return token.kind == "symbol" and token.key not in (")", "]")


def _spelled(value: Any) -> str:
    """A value as SQL, of the type that Spark gives it; empty for what is not spelled alike everywhere."""
    match value:
        case bool():
            return str(value).upper()
        case int() if -(2**63) < value < 2**63:
            return f"({value})" if value < 0 else str(value)
        case str() if "\\" not in value and "'" not in value:
            return literal(value)
        case datetime():
            return ""
        case date() if value.year >= 1583:
            return f"DATE '{value.isoformat()}'"
        case _:
            return ""
