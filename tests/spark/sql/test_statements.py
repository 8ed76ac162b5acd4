"""Each statement of hive.sql and openlookeng.sql is parsed to the value, or raises the error, that the file gives."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hive_bitmap
from hive_bitmap import errors
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.sql import statements
from hive_bitmap.spark.sql.parse import parse

VALUES = {**vars(statements), "T": statements.TableName, "O": statements.Dialect.OPENLOOKENG}
WORDS = "IF NOT EXISTS ON TABLE USING AS WITH DEFERRED REBUILD IN WHERE OR AND SET t 1 ( ) , . = - 'x' `x`"


def cases() -> Iterator[object]:
    for path in sorted(Path(__file__).parent.glob("*.sql")):
        lines: list[str] = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("--> "):
                yield pytest.param("\n".join(lines), line[4:], id=f"{path.stem}:{number}")
                lines = []
            elif line.strip() and not line.startswith("---- "):
                lines.append(line)
        assert lines == [], f"{path} ends without an expectation"


@pytest.mark.parametrize(("text", "expected"), list(cases()))
def test_a_statement_is_read_as_the_file_says(text: str, expected: str) -> None:
    error = re.match(r"(\w+): (.*)", expected)
    if error is None:
        assert parse(text) == eval(expected, VALUES)
        return
    with pytest.raises(getattr(errors, error[1])) as raised:
        parse(text)
    said, told = error[2], str(raised.value)
    assert told.startswith(said[:-2]) if said.endswith("..") else told == said


@given(
    st.sampled_from(["CREATE INDEX", "ALTER INDEX", "DROP INDEX", "UPDATE INDEX", "SHOW INDEX", "DROP TABLE"]),
    st.lists(st.sampled_from(WORDS.split())),
)
def test_any_words_are_read_or_refused_with_a_reason(first: str, rest: list[str]) -> None:
    try:
        parse(" ".join([first, *rest]))
    except HiveBitmapError as e:
        assert str(e)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_any_name_goes_through_backticks(name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    expected = statements.DropIndex("i", statements.TableName(name, name))
    assert parse(f"DROP INDEX i ON {quoted}.{quoted}") == expected


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_goes_through_quotes(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    read = parse(f"ALTER INDEX i ON t PARTITION (p='{escaped}x') REBUILD")
    assert read == statements.RebuildIndex("i", statements.TableName("t"), (("p", text + "x"),))


def test_a_thousand_parentheses_are_refused() -> None:
    with pytest.raises(errors.InvalidStatement, match="nested deeper than"):
        parse("DROP INDEX i WHERE " + "(" * 1000 + "p = 1" + ")" * 1000)


def test_functions_are_not_hidden_by_the_modules_of_their_names() -> None:
    assert callable(hive_bitmap.sql) and callable(hive_bitmap.session)
    assert sys.modules["hive_bitmap.spark.catalyst.sql_text"].sql is hive_bitmap.sql
