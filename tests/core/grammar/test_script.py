"""Splitting scripts into statements, and finding a statement's first words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.grammar.script import Part, first_words, split
from hive_bitmap.errors import InvalidStatement

# Pieces that hold a semicolon which ends nothing.
CLOSED = [
    "';'",
    '";"',
    "`;`",
    "'it''s;'",
    r"'\';'",
    r'"\";"',
    "r';\\'",
    "-- ;\n",
    "/* ; */",
    "/* /* ; */ ; */",
    "a",
    " ",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ; -- nothing\n;/* ; */", []),
        ("SELECT 1", [("SELECT 1", 1, 1)]),
        ("SELECT 1;", [("SELECT 1", 1, 1)]),
        ("-- a\n  SELECT 1 -- b\n ; SELECT\n2 ", [("SELECT 1", 2, 3), ("SELECT\n2", 3, 4)]),
        ("SELECT ';', \"a;b\", `c;d`;x", [("SELECT ';', \"a;b\", `c;d`", 1, 1), ("x", 1, 26)]),
        ("SELECT '\\';'; x", [("SELECT '\\';'", 1, 1), ("x", 1, 15)]),
        ("SELECT r'\\'; x", [("SELECT r'\\'", 1, 1), ("x", 1, 14)]),
        ("SELECT bar'\\';'; x", [("SELECT bar'\\';'", 1, 1), ("x", 1, 18)]),
        ("SELECT /* it's; /* ; */ */ 1; x", [("SELECT /* it's; /* ; */ */ 1", 1, 1), ("x", 1, 31)]),
        ("SELECT /*+ MERGE(t) */ 1; x", [("SELECT /*+ MERGE(t) */ 1", 1, 1), ("x", 1, 27)]),
        ("-- goes on \\\n; here\nx", [("x", 3, 1)]),
        ("SELECT 1 -- it's\n; x", [("SELECT 1", 1, 1), ("x", 2, 3)]),
        ("a - -1; b", [("a - -1", 1, 1), ("b", 1, 9)]),
    ],
)
def test_a_script_ends_its_statements_at_semicolons(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert split(text) == [Part(*part) for part in expected]


@given(st.lists(st.lists(st.sampled_from(CLOSED), min_size=1).map(" ".join)))
def test_what_is_joined_by_semicolons_comes_apart_there(statements: list[str]) -> None:
    statements = [f"x {statement} x" for statement in statements]
    text = " ;\n".join(statements)
    parts = split(text)
    assert [part.text for part in parts] == statements
    for part in parts:
        assert "\n".join(text.split("\n")[part.line - 1 :])[part.column - 1 :].startswith(part.text)
        assert part.in_place.split("\n")[part.line - 1][part.column - 1 :] == part.text.split("\n")[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1;\n SELECT 'a", "line 2, column 9: this ' is not closed"),
        ('SELECT "a', 'line 1, column 8: this " is not closed'),
        ("SELECT `a", "line 1, column 8: this ` is not closed"),
        ("SELECT /* /* */ 1", "line 1, column 8: this /* is not closed"),
        (r"SELECT 'a\';", "line 1, column 8: this ' is not closed"),
    ],
)
def test_what_is_not_closed_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidStatement) as raised:
        split(text)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  show  INDEX i", ["SHOW", "INDEX", "I"]),
        ("-- CREATE TABLE\n/* a /* b */ */Create/**/index", ["CREATE", "INDEX"]),
        ("DROP `INDEX` i", ["DROP"]),
        ("(SELECT 1)", []),
        ("SELECT 'never closed", ["SELECT"]),
        ("/* never closed", []),
    ],
)
def test_first_words(text: str, words: list[str]) -> None:
    assert first_words(text, 3) == words
