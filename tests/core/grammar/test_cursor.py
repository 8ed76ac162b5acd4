"""The tokens of a statement, taken one after the other: names, strings, lists, and where an error is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.grammar.cursor import Cursor
from hive_bitmap.core.grammar.statements import TableName
from hive_bitmap.errors import InvalidStatement

CHARACTERS = st.text(st.characters(exclude_categories=("Cs",)))


def rest(cursor: Cursor) -> list[str]:
    """The tokens that are left."""
    found = []
    while cursor.token.kind != "end":
        found.append(cursor.advance().text)
    return found


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        (("IF",), True),
        (("IF", "NOT", "EXISTS"), True),
        (("IF", "EXISTS"), False),  # nothing is taken of what begins alike
        (("IF", "NOT", "EXISTS", "T", "MORE"), False),
        (("if",), False),  # words are told in upper case
        ((), True),
    ],
)
def test_words_are_taken_together_or_not_at_all(words: tuple[str, ...], taken: bool) -> None:
    cursor = Cursor("If not /* a */ EXISTS t")
    assert cursor.next_is(*words) is taken
    assert cursor.accept(*words) is taken
    assert rest(cursor) == ["If", "not", "EXISTS", "t"][len(words) if taken else 0 :]


def test_a_quoted_word_is_no_keyword() -> None:
    assert not Cursor("'IF'").next_is("IF")
    assert not Cursor("`IF`").next_is("IF")


def test_words_that_must_come() -> None:
    cursor = Cursor("CREATE\n  TABLE t")
    with pytest.raises(InvalidStatement) as raised:
        cursor.expect("CREATE", "INDEX")
    assert str(raised.value) == "line 2, column 3: mismatched input 'TABLE', expecting INDEX"


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        ("t", (), "line 1, column 1: mismatched input 't', expecting the end"),
        ("\n\n t", ("WHERE",), "line 3, column 2: mismatched input 't', expecting WHERE or the end"),
    ],
)
def test_what_is_left_over_is_told_with_what_could_follow(text: str, expected: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidStatement) as raised:
        Cursor(text).end(*expected)
    assert str(raised.value) == said


def test_the_end_is_where_the_text_ends() -> None:
    cursor = Cursor("a\nbc")
    rest(cursor)
    cursor.end("never told")
    assert str(cursor.error("why")) == "line 2, column 3: why"
    assert cursor.advance().kind == cursor.advance().kind == "end"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Word", "Word"),
        ("select", "select"),
        ("`a ``b``.c`", "a `b`.c"),
        ('"A b"', "A b"),  # openLooKeng's
        ('"a``b"', "a``b"),
        ("1a", "1a"),  # as in Spark
    ],
)
def test_names(text: str, name: str) -> None:
    assert Cursor(text).name() == name


@pytest.mark.parametrize("text", ["'a'", "1", "(", "=", "-- nothing\nb'"])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InvalidStatement):
        Cursor(text).name()


@pytest.mark.parametrize("text", ["``", '""'])
def test_a_name_cannot_be_empty(text: str) -> None:
    cursor = Cursor(f"a {text}")
    cursor.name()
    with pytest.raises(InvalidStatement) as raised:
        cursor.name()
    assert str(raised.value) == "line 1, column 3: a name cannot be empty"


@given(st.lists(st.text(min_size=1).filter(lambda name: name.isprintable()), min_size=1, max_size=5))
def test_dotted_names(parts: list[str]) -> None:
    text = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    cursor = Cursor(f"{text} x")
    assert (cursor.path(), rest(cursor)) == (tuple(parts), ["x"])
    if len(parts) <= 3:
        assert Cursor(text).table() == TableName(*reversed(parts))
        return
    with pytest.raises(InvalidStatement, match=f"this name has {len(parts)} parts") as raised:
        Cursor(text).table()
    assert str(raised.value).startswith("line 1, column 1: ")


@pytest.mark.parametrize(("catalog", "foreign"), [("", False), ("hive", False), ("LAKE", True), ("indexed", False)])
def test_catalogs_that_are_left_to_spark(catalog: str, foreign: bool) -> None:
    cursor = Cursor("t", lambda table: table.is_own() or table.catalog == "indexed")
    assert cursor.is_foreign(TableName("t", "db", catalog)) is foreign


@given(CHARACTERS)
def test_a_doubled_quote_stands_for_one(text: str) -> None:
    if "\\" not in text:
        assert Cursor("'" + text.replace("'", "''") + "'").string() == text
        assert Cursor("'" + text.replace("'", "''") + "'").string(escapes=False) == text
        assert Cursor('"' + text.replace('"', '""') + '"').string() == text


@given(CHARACTERS)
def test_characters_by_number(text: str) -> None:
    written = "".join(f"\\u{ord(char):04x}" for char in text if ord(char) < 1 << 16)
    assert Cursor(f"'{written}'").string() == "".join(char for char in text if ord(char) < 1 << 16)
    octal = [char for char in text if ord(char) < 0o400]
    assert Cursor("'" + "".join(f"\\{ord(char):03o}" for char in octal) + "'").string() == "".join(octal)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'\n\t\r\b\0\Z'", "\n\t\r\b\0\x1a"),
        (r"'\'\"\\'", "'\"\\"),
        (r"'\%\_'", r"\%\_"),  # so that LIKE sees them
        (r"'\q'", "q"),
        (r"'\u12'", "u12"),
        (r"'\400'", "400"),  # no character of one byte
        ("'a''b' \"c\"", "a'b"),
        ("'a' 'b'", "a"),  # not beside each other
        ("'a'\"b\"", "a"),
        ("''", ""),
    ],
)
def test_strings(text: str, value: str) -> None:
    assert Cursor(text).string() == value


def test_a_backslash_is_no_escape_in_openlookeng() -> None:
    assert Cursor(r"'a\n\\'").string(escapes=False) == r"a\n\\"


@pytest.mark.parametrize("text", ["a", "`a`", "1", "r'a'"])
def test_what_is_no_string(text: str) -> None:
    with pytest.raises(InvalidStatement, match=r"^line 1, column 1: mismatched input .* expecting a quoted string$"):
        Cursor(text).string()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(a)", ("a",)),
        ("(a, b ,a) c", ("a", "b", "a")),
        ("()", "column 2: mismatched input ')', expecting a name"),
        ("(a,)", "column 4: mismatched input ')', expecting a name"),
        ("(a b)", "column 4: mismatched input 'b', expecting , or )"),
        ("(a", "column 3: mismatched input '<EOF>', expecting , or )"),
        ("a", "column 1: mismatched input 'a', expecting ("),
    ],
)
def test_lists(text: str, found: tuple[str, ...] | str) -> None:
    cursor = Cursor(text)
    if isinstance(found, tuple):
        assert cursor.items(cursor.name) == found
        return
    with pytest.raises(InvalidStatement) as raised:
        cursor.items(cursor.name)
    assert str(raised.value) == f"line 1, {found}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected one statement, got 0"),
        (" -- a", "expected one statement, got 0"),
        ("a;\n b", "line 2, column 2: expected one statement, got 2"),
        ("a; b; c", "line 1, column 4: expected one statement, got 3"),
    ],
)
def test_one_statement_is_read(text: str, said: str) -> None:
    with pytest.raises(InvalidStatement) as raised:
        Cursor(text)
    assert str(raised.value) == said


@pytest.mark.parametrize("read", [Cursor.name, Cursor.string, Cursor.path, Cursor.table])
def test_nothing_is_read_at_the_end(read: Callable[[Cursor], Any]) -> None:
    cursor = Cursor("a")
    cursor.advance()
    with pytest.raises(InvalidStatement, match=r"column 2: mismatched input '<EOF>'"):
        read(cursor)
