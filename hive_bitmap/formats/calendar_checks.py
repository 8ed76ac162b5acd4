"""Value gates: dates and timestamps that Arrow may show otherwise than Spark make their column undecodable."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.key_values import Values, canonical

_EPOCH = datetime.date(1970, 1, 1)
_DAY = 86_400_000_000

GREGORIAN = datetime.date(1582, 10, 15)
"""The first day that the Julian-Gregorian and the proleptic Gregorian calendar number alike."""
FIRST_DAY = (GREGORIAN - _EPOCH).days
FIRST_MICROSECOND = (datetime.date(1900, 1, 1) - _EPOCH).days * _DAY
"""From here on no time zone's rules depend on the calendar."""
_YEARS = [(datetime.date(1, 1, 1) - _EPOCH).days, (datetime.date(9999, 12, 31) - _EPOCH).days]  # days of Python's


def require_from(values: Values, floor: int, name: str) -> None:
    """Raise Undecodable if a date (days) or timestamp (microseconds) lies before `floor`."""
    least, _ = _range(values)
    if least is not None and least < floor:
        raise Undecodable(f"column {name!r} holds dates of a calendar that the file does not tell")


def as_keys(values: Values, name: str) -> Values:
    """Values as `canonical` keys; raises Undecodable for dates and times outside the years 1 to 9999.

    Python has no others; of times in microseconds those are what a reader makes of nanoseconds that wrapped around.
    """
    if pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type):
        least, greatest = _range(values)
        unit = 1 if pa.types.is_date32(values.type) else _DAY
        first, last = _YEARS[0] * unit, (_YEARS[1] + 1) * unit - 1
        if least is not None and greatest is not None and (least < first or greatest > last):
            raise Undecodable(f"column {name!r} holds dates outside the years 1 to 9999")
    return canonical(values)


def require_whole_seconds_near_1970(values: Values, name: str) -> None:
    """Raise Undecodable if a timestamp (microseconds) within a day of 1970 has a fraction of a second.

    ORC stores seconds and fraction apart, so the second before 0 has no sign; Java and C++ look at it in different
    zones (the writer's, the reader's, UTC) to guess it, and come out a second apart.
    """
    micros = np.asarray(values.cast(pa.int64()).drop_null())
    if bool(np.any((np.abs(micros) < _DAY) & (micros % 1_000_000 != 0))):
        raise Undecodable(f"column {name!r} holds fractions of seconds next to 1970-01-01")


def _range(values: Values) -> tuple[int | None, int | None]:
    raw = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    ends = pc.min_max(raw)
    return ends["min"].as_py(), ends["max"].as_py()
