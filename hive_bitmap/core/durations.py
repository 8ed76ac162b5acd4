"""Parse lengths of time such as `30 seconds`, `5m` and `1.5 hours`."""

from __future__ import annotations

import re

from hive_bitmap.errors import InvalidProperty

SHORTEST, LONGEST = 1.0, 366 * 86400.0  # seconds between two runs of a repeated task
_NAMES = {1: "s sec second", 60: "m min minute", 3600: "h hour", 86400: "d day"}
_UNITS = {name: seconds for seconds, names in _NAMES.items() for name in names.split()}
# A plural s may follow a word, but not a single letter.
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([a-z]*?)(?:(?<=[a-z]{3})s)?")


def seconds_of(length: str) -> float:
    """Return a length of time in seconds.

    A number without a unit is in seconds. Raises InvalidProperty unless the text is a number, with or without a unit.

    >>> seconds_of("30 seconds"), seconds_of("5m"), seconds_of("1.5 hours"), seconds_of("90")
    (30.0, 300.0, 5400.0, 90.0)
    """
    match = _LENGTH.fullmatch(length.strip().lower())
    if match is None or (match[2] and match[2] not in _UNITS):
        raise InvalidProperty(
            f"{length!r} is not a length of time: write a number and a unit, such as 30 seconds or 5m"
        )
    return float(match[1]) * _UNITS[match[2] or "s"]


def interval_of(length: str, name: str) -> float:
    """Return `length`, the interval of a repeated task, in seconds.

    `name` is the property or option with the interval, for the message. Raises InvalidProperty if the text is not a
    length of time, and for less than SHORTEST or more than LONGEST.
    """
    seconds = seconds_of(length)
    if seconds < SHORTEST:
        raise InvalidProperty(f"{name} is {length!r}; it must be at least 1 second")
    if seconds > LONGEST:
        raise InvalidProperty(f"{name} is {length!r}; it must be at most 366 days")
    return seconds
