"""Keys that are expressions in CREATE INDEX of both dialects, and as arguments of the command line."""

from __future__ import annotations

import pytest

from hive_bitmap.cli.index_options import split_keys
from hive_bitmap.core.columns import KeyText
from hive_bitmap.core.grammar.parse import parse
from hive_bitmap.core.grammar.statements import CreateIndex
from hive_bitmap.errors import InvalidStatement

HOUR = KeyText("date_trunc('HOUR', ts)", "hour")


def keys(text: str) -> tuple[object, ...]:
    statement = parse(text)
    assert isinstance(statement, CreateIndex)
    return statement.columns


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("date_trunc('HOUR', ts) AS hour", [HOUR]),
        ("k, date_trunc('HOUR', ts) as Hour, `a b`", ["k", HOUR, "a b"]),
        ("CAST(ts AS DATE) AS `day`", [KeyText("CAST(ts AS DATE)", "day")]),
        ("n % 10 AS ten, (a) AS b", [KeyText("n % 10", "ten"), KeyText("(a)", "b")]),
        ("substring(s, 1, 2) /* the beginning */ AS p", [KeyText("substring(s, 1, 2) /* the beginning */", "p")]),
        ("as, k", ["as", "k"]),
    ],
)
def test_both_dialects_take_expressions(items: str, expected: list[object]) -> None:
    assert keys(f"CREATE INDEX i ON TABLE t ({items}) AS 'BITMAP'") == tuple(expected)
    assert keys(f"CREATE INDEX i USING bitmap ON t ({items}) WITH (encoding = gap)") == tuple(expected)


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ("date_trunc('HOUR', ts)", "a key that is an expression needs a name: date_trunc('HOUR', ts) AS name"),
        ("k, to_date(ts)", "needs a name: to_date(ts) AS name"),
        ("n % 10", "needs a name: n % 10 AS name"),
        ("(n % 10), k", "needs a name: (n % 10) AS name"),
        ("a b", "mismatched input 'b', expecting , or )"),
        ("f(a AS b", "mismatched input"),
        ("", "mismatched input ')', expecting a name"),
    ],
)
def test_malformed_keys(items: str, why: str) -> None:
    with pytest.raises(InvalidStatement, match=why.replace("(", r"\(").replace(")", r"\)")):
        parse(f"CREATE INDEX i ON TABLE t ({items}) AS 'BITMAP'")


def test_arguments_of_the_command_line() -> None:
    assert split_keys("a,`b,c`, d") == ["a", "b,c", "d"]
    assert split_keys("k,substring(`s,t`, 1, 2) AS p,size (cm)") == ["k", "substring(`s,t`, 1, 2) AS p", "size (cm)"]
