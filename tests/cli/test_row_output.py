"""The values of rows as Spark writes them in JSON: printed with the same digits, nested ones as JSON again."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.cli.output import csv_line, csv_value, text_of, values_of


def test_numbers_keep_all_their_digits() -> None:
    row = '{"a": 12345678901234567890.123456789012345678, "b": 1e-7, "c": {"d": [0.10, 9223372036854775807]}}'
    assert csv_line(map(csv_value, values_of(row))) == (
        '12345678901234567890.123456789012345678,1e-7,"{""d"": [0.10, 9223372036854775807]}"\n'
    )


@pytest.mark.parametrize(
    ("value", "text", "field"),
    [
        ("null", "NULL", ""),
        ("true", "true", "true"),
        ('""', "", '""'),
        ('"a\\nb"', "a\nb", '"a\nb"'),
        ("1.50", "1.50", "1.50"),
        ("-0.0", "-0.0", "-0.0"),
        ("[]", "[]", "[]"),
        ("{}", "{}", "{}"),
        ('[1.10, null, "x", true]', '[1.10, null, "x", true]', '"[1.10, null, ""x"", true]"'),
        ('{"é \\"": {"b": [1e2]}}', '{"é \\"": {"b": [1e2]}}', '"{""é \\"""": {""b"": [1e2]}}"'),
    ],
)
def test_values(value: str, text: str, field: str) -> None:
    [found] = values_of(f'{{"a": {value}}}')
    assert text_of(found) == text
    assert csv_line([csv_value(found)]) == f"{field}\n"


def test_columns_are_in_the_order_of_the_row_and_may_have_any_name() -> None:
    assert values_of('{"b": 1, "": 2, "a.b": 3}') == ["1", "2", "3"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def written(value: Any) -> str:
    """A value in JSON, with decimals in all their digits."""
    match value:
        case Decimal():
            return f"{value:f}"
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {written(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


@given(st.lists(JSON, max_size=3) | st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_nested_values_are_the_same_json(value: Any) -> None:
    text = written(value)
    [found] = values_of(f'{{"a": {text}}}')
    assert text_of(found) == csv_value(found) == text
