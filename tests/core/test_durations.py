"""Lengths of time as people write them."""

from __future__ import annotations

import pytest

from hive_bitmap.core.durations import seconds_of
from hive_bitmap.errors import InvalidProperty


@pytest.mark.parametrize(
    ("length", "seconds"),
    [
        ("30 seconds", 30),
        ("1 second", 1),
        ("30s", 30),
        ("45 sec", 45),
        ("2 secs", 2),
        (" 5 MIN ", 300),
        ("5m", 300),
        ("1.5 hours", 5400),
        ("2h", 7200),
        ("1 day", 86400),
        ("7 days", 604800),
        ("90", 90),
        ("0.5", 0.5),
    ],
)
def test_lengths(length: str, seconds: float) -> None:
    assert seconds_of(length) == seconds


@pytest.mark.parametrize(
    "length", ["", "soon", "s", "5 ss", "5 ms", "-5 s", "5 s 3", "1e3 s", "5 weeks", "٥ s", "30 secondss"]
)
def test_what_is_none(length: str) -> None:
    with pytest.raises(InvalidProperty, match="is not a length of time: write a number and a unit, such as"):
        seconds_of(length)
