"""Each statement of hive.sql and openlookeng.sql is read to the value, or the error, given there.

The clauses of CREATE INDEX are those of `test_clauses`.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hive_bitmap
from hive_bitmap import errors
from hive_bitmap.core.grammar import statements
from hive_bitmap.core.grammar.parse import parse
from hive_bitmap.errors import HiveBitmapError
from tests.core.grammar.corpus import cases, is_create, require

T = statements.TableName
WORDS = "IF NOT EXISTS ON TABLE USING AS WITH DEFERRED REBUILD IN WHERE OR AND SET t 1 ( ) , . = - 'x' `x`"


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(*case, id=name) for name, *case in cases() if not is_create(case[0])]
)
def test_a_statement_is_read_as_the_file_says(text: str, expected: str) -> None:
    require(lambda: parse(text), expected)


def test_create_index_is_read_by_its_clauses() -> None:
    text = "/* of */ create  INDEX i ON t (a) AS 'BITMAP' COMMENT 'c'"
    assert parse(text) == statements.CreateIndex(name="i", table=T("t"), columns=("a",), comment="c")
    assert parse(text.replace("t (a)", "lake.db.t (a)")) is None
    told = parse(text.replace("t (a)", "lake.db.t (a)"), lambda table: table.catalog == "lake")
    assert isinstance(told, statements.CreateIndex) and told.table == T("t", "db", "lake")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE INDEX i ON db.t (a)",
        "CREATE INDEX i ON t USING btree (a) OPTIONS (x = 'y')",
        "CREATE INDEX i USING bitmap ON t (a)",
        "DROP INDEX i ON t",
        "REFRESH INDEX i ON t",
    ],
)
def test_spark_reads_statements_on_tables_that_are_not_indexed(text: str) -> None:
    """As those of a current catalog of JDBC, which the statement does not name; also what is an error for ours."""
    assert parse(text, lambda table: False) is None


@given(
    st.sampled_from(
        ["CREATE INDEX", "ALTER INDEX", "DROP INDEX", "UPDATE INDEX", "REFRESH INDEX", "SHOW INDEX", "DROP TABLE"]
    ),
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
    expected = statements.DropIndex("i", T(name, name))
    assert parse(f"DROP INDEX i ON {quoted}.{quoted}") == expected


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_goes_through_quotes(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    read = parse(f"ALTER INDEX i ON t PARTITION (p='{escaped}x') REBUILD")
    assert read == statements.RebuildIndex("i", T("t"), (("p", text + "x"),))


def test_a_thousand_parentheses_are_refused() -> None:
    with pytest.raises(errors.InvalidStatement, match="nested deeper than"):
        parse("DROP INDEX i WHERE " + "(" * 1000 + "p = 1" + ")" * 1000)


def test_functions_are_not_hidden_by_the_modules_of_their_names() -> None:
    assert callable(hive_bitmap.sql) and callable(hive_bitmap.session)
    assert sys.modules["hive_bitmap.spark.catalyst.sql_text"].sql is hive_bitmap.sql
