"""Names and values of tables in SQL: what is quoted is read back as it was, and nothing in it is a variable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import (
    Table,
    constant,
    error_message,
    hadoop_path,
    in_spark,
    index_table_name,
    literal,
    name_parts,
    partition_name,
    partition_spec,
    quote,
    string_expression,
)
from hive_bitmap.errors import NotFound, Unsupported

PIECES = st.sampled_from(
    ["a", "é", " ", "`", "'", '"', "\\", "$", "{", "}", "${", ".", "\n", "%", "X'", "--", "\U0001f600"]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)
NAMES = TEXTS.filter(lambda text: text and "${" not in text)


def unquoted(written: str) -> str:
    """Read an SQL string literal between single quotes, in which a backslash escapes the character after it."""
    assert written[0] == written[-1] == "'"
    found = re.fullmatch(r"(?:[^'\\]|\\.)*", written[1:-1], re.DOTALL)
    assert found is not None
    return re.sub(r"\\(.)", r"\1", written[1:-1], flags=re.DOTALL)


@given(NAMES)
def test_a_quoted_name_ends_at_its_last_backtick(name: str) -> None:
    quoted = quote(name)
    assert re.fullmatch(r"`(?:[^`]|``)*`", quoted)
    assert quoted[1:-1].replace("``", "`") == name


def test_a_name_that_holds_a_variable_is_refused() -> None:
    for name in ("${a}", "x${", "`${"):
        with pytest.raises(Unsupported) as error:
            quote(name)
        assert str(error.value) == f"name {name!r} contains ${{, which begins a variable in SQL: rename it"
    assert quote("$ {a}$") == "`$ {a}$`"
    with pytest.raises(Unsupported, match="contains"):
        in_spark("db", "${a}")


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_the_parts_of_a_name_are_those_that_were_quoted(names: list[str]) -> None:
    expected = ("", "", *names)[-3:]
    assert name_parts(".".join(map(quote, names))) == expected
    assert name_parts(" . ".join(map(quote, names))) == expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("", "", "t")),
        ("Db.T_1", ("", "Db", "T_1")),
        ("spark_catalog.db.t", ("spark_catalog", "db", "t")),
        ("db.`a.b`", ("", "db", "a.b")),
        ("select", ("", "", "select")),
    ],
)
def test_names_without_quotes(text: str, parts: tuple[str, str, str]) -> None:
    assert name_parts(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a.",
        ".a",
        "a..b",
        "a b",
        "a.b.c.d",
        "``",
        "a.``",
        "`a",
        "'a'",
        "a-b",
        "é",
        "a;",
        "a, b",
        "(a)",
        "\ud800",
    ],
)
def test_what_is_no_name_of_a_table_is_refused(text: str) -> None:
    with pytest.raises(NotFound) as error:
        name_parts(text)
    assert str(error.value) == f"{text!r} is not a table name: use table or database.table"


@given(TEXTS)
def test_text_goes_through_quotes_and_holds_no_variable(text: str) -> None:
    assert unquoted(literal(text)) == text
    assert "${" not in literal(text) + constant(text) + string_expression(text)


@given(TEXTS)
def test_constants_need_no_escapes(text: str) -> None:
    written, expression = constant(text), string_expression(text)
    if written.startswith("X"):
        assert bytes.fromhex(written[2:-1]).decode() == text
        assert expression == f"CAST({written} AS STRING)"
    else:
        assert written == expression == f"'{text}'" and "\\" not in written and "'" not in text


TABLE = Table(
    database="d`b",
    name="t",
    kind="MANAGED",
    columns=(Column("k", "int"),),
    partition_columns=(Column("p", "int"), Column("q`", "string")),
)


def test_a_partition_spec_names_each_partition_column() -> None:
    assert partition_spec(TABLE, ["1", None]) == "(`p`='1', `q```=NULL)"
    assert partition_spec(TABLE, [None, "it's"]) == "(`p`=NULL, `q```=X'69742773')"
    assert partition_spec(TABLE, ["", "NULL"]) == "(`p`='', `q```='NULL')"
    with pytest.raises(ValueError, match="shorter"):
        partition_spec(TABLE, ["1"])


def test_a_partition_is_shown_though_the_columns_of_its_table_have_changed() -> None:
    assert partition_name(["p"], ["1", "2"]) == "p=1" and partition_name(["p", "q"], ["a/b=c"]) == "p=a/b=c"
    assert partition_name([], []) == ""


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:/w/t", "file:/w/t"),
        ("file:////w/t//", "file:/w/t"),
        ("file:///", "file:/"),
        ("file:/", "file:/"),
        ("/", "/"),
        ("/w/", "/w"),
        ("s3a://b/a%20b%2525", "s3a://b/a b%25"),
        ("s3a://b/", "s3a://b"),
        ("hdfs://nn:8020/x/file:/y", "hdfs://nn:8020/x/file:/y"),
    ],
)
def test_a_location_as_hadoop_prints_it(uri: str, path: str) -> None:
    assert hadoop_path(uri) == path


def test_names_of_tables() -> None:
    assert (TABLE.full_name, TABLE.sql_name) == ("d`b.t", "`d``b`.`t`")
    assert TABLE.spark_name == in_spark("d`b", "t") == "spark_catalog.`d``b`.`t`"
    assert in_spark("db") == "spark_catalog.`db`"
    assert index_table_name("db", "t", "i") == "db__t_i__" and index_table_name("db", "*", "*") == "db__*_*__"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no such table;\n'Project [*]\n+- x", "no such table"),
        (" wrong\n\nJVM stacktrace:\nat x", "wrong"),
        ("one; two\nthree\n", "one; two\nthree"),
        ("", ""),
    ],
)
def test_a_message_of_spark_is_without_plan_and_stack_trace(text: str, message: str) -> None:
    assert error_message(RuntimeError(text)) == message
