"""Figures as text: no share looks like nothing or everything unless it is, and what is not known is a dash."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hive_bitmap.core.explaining import measures
from hive_bitmap.core.planning.strategy import Strategy
from tests.core.explaining.test_explain import EMPTY, NOT_LOOKED_UP, THREE

FACTORS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(None, 5, "-"), (1, None, "-"), (1, 1000, "0.1 %"), (3, 2, "150 %")]
)
def test_percent(part: int | None, whole: int | None, text: str) -> None:
    assert measures.percent(part, whole) == text


@given(st.integers(0, 10**12), st.integers(1, 10**12))
@example(9, 10_000)
@example(10, 10_000)
@example(9_900, 10_000)
@example(9_960, 10_000)
@example(9_999, 10_000)
def test_a_share_is_0_or_100_only_if_it_is_exactly_that(part: int, whole: int) -> None:
    part = min(part, whole)
    text = measures.percent(part, whole)
    assert (text == "0 %") == (part == 0) and (text == "100 %") == (part == whole)
    if text[0] not in "<>":
        assert abs(float(text.removesuffix(" %")) - 100 * part / whole) <= (0.5 if part / whole >= 0.1 else 0.05) + 1e-9
    elif text[0] == "<":
        assert text == "<0.1 %" and part / whole < 0.001
    else:
        assert text == ">99 %" and part / whole > 0.99


@given(st.integers(0, 10**18))
def test_a_size_is_right_to_two_digits_and_short(count: int) -> None:
    text = measures.size(count)
    number, unit = text.split()
    assert re.fullmatch(r"[0-9]{1,4}|[0-9]{1,2}\.[0-9]", number) and (unit == "B" or "." in number or len(number) >= 3)
    assert abs(float(number) * FACTORS[unit] - count) <= 0.05 * FACTORS[unit] + (0.5 * FACTORS[unit]) * (
        "." not in number
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_400, "99.4 kB"),
        (99_500, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
    ],
)
def test_sizes_where_the_unit_changes(count: int, text: str) -> None:
    assert measures.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 ms"), (0.9994, "999 ms"), (1, "1.0 s"), (90, "90.0 s"), (0.0004, "0 ms")]
)
def test_durations(seconds: float, text: str) -> None:
    assert measures.seconds(seconds) == text


def test_moments_are_in_utc_and_to_the_second() -> None:
    assert measures.moment(1_700_000_000.9) == "2023-11-14T22:13:20Z"


def test_files_that_are_gone_are_one_or_many() -> None:
    assert measures.deleted(1) == "1 indexed file no longer exists"
    assert measures.deleted(0) == "0 indexed files no longer exist"
    assert measures.deleted(1234) == "1,234 indexed files no longer exist"


def test_how_much_a_plan_reads() -> None:
    assert measures.measures(THREE) == [
        ("files", "2", "3", "67 %"),
        ("blocks", "4", "7", "57 %"),
        ("bytes", "400 B", "700 B", "57 %"),
        ("rows", "1,251", "5,020", "25 %"),
    ]
    assert measures.measures(dataclasses.replace(THREE, strategy=Strategy.INDEX_ONLY)) == [
        ("files", "1", "3", "33 %"),  # the one that the index does not know as it is
        ("blocks", "1", "7", "14 %"),
        ("bytes", "4 B", "700 B", "0.6 %"),
        ("rows counted", "1,251", "5,020", "25 %"),
    ]
    assert measures.measures(EMPTY) == [
        ("files", "0", "0", "-"),
        ("blocks", "0", "0", "-"),
        ("bytes", "0 B", "0 B", "-"),
        ("rows", "-", "-", "-"),
    ]
    assert measures.measures(NOT_LOOKED_UP) == [(word, "-", "-", "-") for word in ("files", "blocks", "bytes", "rows")]
