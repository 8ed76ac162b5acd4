"""Lengths of time as people write them: `30 seconds`, `5m`, `1.5 hours`."""

from __future__ import annotations

import re

from hive_bitmap.errors import InvalidProperty

SHORTEST, LONGEST = 1.0, 366 * 86400.0  # seconds from one time that something is done to the next
_NAMES = {1: "s sec second", 60: "m min minute", 3600: "h hour", 86400: "d day"}
_UNITS = {name: seconds for seconds, names in _NAMES.items() for name in names.split()}
# With the plural of a word, not of a letter.
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([a-z]*?)(?:(?<=[a-z]{3})s)?")


def seconds_of(length: str) -> float:
    """Return a length of time in seconds; a number alone is one of seconds. Raise InvalidProperty for any other text.

    >>> seconds_of("30 seconds"), seconds_of("5m"), seconds_of("1.5 hours"), seconds_of("90")
    (30.0, 300.0, 5400.0, 90.0)
    """
    found = _LENGTH.fullmatch(length.strip().lower())
    if found is None or (found[2] and found[2] not in _UNITS):
        raise InvalidProperty(f"{length!r} is no length of time: it is a number and a unit, such as 30 seconds or 5m")
    return float(found[1]) * _UNITS[found[2] or "s"]


def interval_of(length: str, name: str) -> float:
    """Return in seconds after how long something is done again; `name` is that of the property or option.

    Raise InvalidProperty for less than SHORTEST or more than LONGEST.
    """
    seconds = seconds_of(length)
    if seconds < SHORTEST:
        raise InvalidProperty(f"{name} is {length!r}; it is 1 second at least")
    if seconds > LONGEST:
        raise InvalidProperty(f"{name} is {length!r}; it is 366 days at most")
    return seconds
