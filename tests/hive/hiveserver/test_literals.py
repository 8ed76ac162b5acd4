"""Literals whose value is the same in every session, and what they are as values of a column."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.predicates.condition_grammar import Grammar
from hive_bitmap.core.predicates.tokens import Tokens
from hive_bitmap.hive.hiveserver import literals
from hive_bitmap.hive.hiveserver.column_names import Names
from hive_bitmap.hive.hiveserver.literals import EngineOnly, Literal, OutOfRange, literal_of
from hive_bitmap.hive.hiveserver.parser import Condition

BELOW, ABOVE = OutOfRange.BELOW, OutOfRange.ABOVE
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def read(text: str) -> Literal | None:
    """The literal that a text is, all of it; None for any other."""
    tokens = Tokens(text)
    found = literal_at(tokens)
    return found if tokens.token.kind == "end" else None


def literal_at(tokens: Tokens) -> Literal | None:
    try:
        return literal_of(Grammar.literal(Condition(tokens, Names([], None), {})))
    except EngineOnly:
        return None


def value_of(literal: Literal, type: str) -> Any:
    try:
        return literals.value_of(literal, type)
    except EngineOnly:
        return None


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("0", Literal(0, 10)),
        ("- 007", Literal(-7, 10)),
        ("2147483647", Literal(2**31 - 1, 10)),
        ("2147483648", Literal(2**31, 20)),  # a bigint
        ("5L", Literal(5, 20)),
        ("5y", Literal(5, 10)),
        ("127Y", Literal(127, 10)),
        ("9223372036854775807", Literal(2**63 - 1, 20)),
        ("9223372036854775808", Literal(2**63, 19)),  # a decimal of its length
        ("9" * 38, Literal(10**38 - 1, 38)),
        ("1.50", Literal(Decimal("1.50"), 1)),
        ("-.5", Literal(Decimal("-0.5"), 0)),
        ("5.", Literal(Decimal(5), 1)),
        ("001.5", Literal(Decimal("1.5"), 1)),
        ("true", Literal(True)),
        ("False", Literal(False)),
        ("NULL", Literal(None)),
        ("''", Literal("")),
        ("'a \"b\" %'", Literal('a "b" %')),
        ("date '1583-01-01'", Literal(date(1583, 1, 1))),
        ("DATE'9999-12-31'", Literal(date(9999, 12, 31))),
    ],
)
def test_literals(text: str, literal: Literal) -> None:
    assert read(text) == literal


@pytest.mark.parametrize(
    "text",
    [
        *("128Y", "32768S", "9223372036854775808L", "9" * 39, "1." + "0" * 38, "1e3", "1.5e0", "1.5BD", "1D", "1F"),
        *("0x1", "'a\\n'", "'it''s'", '"a"', "r'a'", "X'61'", "-'1'", "-TRUE", "-NULL", "- -1", "+1", "a", "`TRUE`"),
        *("(1)", "DATE '1582-12-31'", "DATE '2023-02-29'", "DATE '2023-2-9'", "DATE ' 2023-02-09'", "DATE", "-"),
        *('DATE "2023-02-09"', "DATE 20230209", "TIMESTAMP '2023-02-09'", "-DATE '2023-02-09'", "current_date"),
    ],
)
def test_what_another_session_might_read_otherwise_is_no_literal(text: str) -> None:
    assert read(text) is None


def test_a_literal_in_the_middle() -> None:
    tokens = Tokens("a = - 5 AND b")
    assert literal_at(tokens) is None
    tokens.at = 2
    assert (literal_at(tokens), tokens.at) == (Literal(-5, 10), 4)


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("1", "int", 1),
        ("1", "string", None),
        ("1", "double", None),
        ("1", "date", None),
        ("1.0", "int", None),
        ("1", "decimal(5,2)", Decimal("1.00")),
        ("1", "decimal(5, 2)", Decimal("1.00")),
        ("999.99", "decimal(5,2)", Decimal("999.99")),
        ("1000", "decimal(5,2)", ABOVE),
        ("-1000", "decimal(5,2)", BELOW),
        ("1.234", "decimal(5,2)", None),  # Spark compares it in a wider type, and rounds if that has no room
        ("1.230", "decimal(5,2)", None),
        ("100", "decimal(38,36)", None),
        ("1", "decimal(38,28)", Decimal("1." + "0" * 28)),
        ("1", "decimal(38,29)", None),
        ("1L", "decimal(38,18)", Decimal("1." + "0" * 18)),
        ("1L", "decimal(38,19)", None),
        ("'a'", "string", "a"),
        ("'a'", "varchar(5)", "a"),
        ("'a'", "char(5)", None),
        ("'a'", "string collate UTF8_LCASE", None),
        ("'1'", "int", None),
        ("'2023-02-09'", "date", None),
        ("DATE '2023-02-09'", "date", date(2023, 2, 9)),
        ("DATE '2023-02-09'", "timestamp", None),
        ("TRUE", "boolean", True),
        ("TRUE", "int", None),
        ("1", "boolean", None),
        ("NULL", "int", None),
    ],
)
def test_values_of_columns(text: str, type: str, value: Any) -> None:
    literal = read(text)
    assert literal is not None
    found = value_of(literal, type)
    assert found == value and found.__class__ is value.__class__


@given(st.sampled_from(list(BITS)), st.integers(-(2**70), 2**70) | st.integers(-300, 300))
def test_integers_against_the_range_of_their_type(type: str, number: int) -> None:
    literal = read(str(number))
    assert literal is not None and literal.value == number
    limit = 1 << (BITS[type] - 1)
    expected: Any = number if -limit <= number < limit else ABOVE if number > 0 else BELOW
    if not -(1 << 63) <= number < 1 << 63:
        expected = None
    assert value_of(literal, type) is expected or value_of(literal, type) == expected


@given(st.integers(1, 38), st.integers(0, 38), st.decimals(-(10**12), 10**12, places=3, allow_nan=False))
def test_decimals_lose_no_digit(precision: int, scale: int, number: Decimal) -> None:
    if scale > precision:
        return
    literal = read(f"{number:f}")
    assert literal is not None
    found = value_of(literal, f"decimal({precision},{scale})")
    if isinstance(found, Decimal):
        assert found == number and abs(found) < Decimal(10) ** (precision - scale)
    elif found is not None:
        assert abs(number) >= Decimal(10) ** (precision - scale) and (found is ABOVE) == (number > 0)
