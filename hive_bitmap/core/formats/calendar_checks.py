"""Reject dates and timestamps that Arrow may read differently from Spark.

The functions raise Undecodable for a column with such values.
"""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.formats.key_values import Values, canonical
from hive_bitmap.errors import Undecodable

_EPOCH = datetime.date(1970, 1, 1)
_DAY = 86_400_000_000

GREGORIAN = datetime.date(1582, 10, 15)
"""From this day on, the hybrid Julian-Gregorian and the proleptic Gregorian calendar agree."""
FIRST_DAY = (GREGORIAN - _EPOCH).days
FIRST_MICROSECOND = (datetime.date(1900, 1, 1) - _EPOCH).days * _DAY
"""From this time on (microseconds since 1970), no rule of a time zone depends on the calendar."""
# The first and the last day that Python's `date` can hold.
_YEARS = [(datetime.date(1, 1, 1) - _EPOCH).days, (datetime.date(9999, 12, 31) - _EPOCH).days]


def require_at_least(values: Values, floor: int, name: str) -> None:
    """Require that no date or timestamp of a column is less than `floor`.

    Dates are in days since 1970, timestamps in microseconds since 1970. `name` is the name of the column, for the
    message. Raises Undecodable.
    """
    least, _ = _range(values)
    if least is not None and least < floor:
        raise Undecodable(f"column {name!r} holds dates of a calendar that the file does not name")


def as_keys(values: Values, name: str) -> Values:
    """Return the values in the form in which keys are stored (`key_values.canonical`).

    Raises Undecodable for dates and timestamps outside the years 1 to 9999, which Python cannot represent. `name` is
    the name of the column, for the message. A timestamp in microseconds outside these years usually comes from
    nanoseconds that overflowed in a reader.
    """
    if pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type):
        least, greatest = _range(values)
        unit = 1 if pa.types.is_date32(values.type) else _DAY
        first, last = _YEARS[0] * unit, (_YEARS[1] + 1) * unit - 1
        if least is not None and greatest is not None and (least < first or greatest > last):
            raise Undecodable(f"column {name!r} holds dates outside the years 1 to 9999")
    return canonical(values)


def require_whole_seconds_near_1970(values: Values, name: str) -> None:
    """Require whole seconds in timestamps near 1970-01-01.

    Raises Undecodable if a timestamp (in microseconds) within a day of 1970-01-01 has a fraction of a second. `name` is
    the name of the column, for the message. ORC stores the seconds and the fraction separately, so within the second
    before 1970 the sign is lost. The Java and C++ readers infer the sign in different time zones (the writer's, the
    reader's, UTC), and the results of the readers differ by a second.
    """
    micros = np.asarray(values.cast(pa.int64()).drop_null())
    if bool(np.any((np.abs(micros) < _DAY) & (micros % 1_000_000 != 0))):
        raise Undecodable(f"column {name!r} holds fractions of seconds next to 1970-01-01")


def _range(values: Values) -> tuple[int | None, int | None]:
    raw = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    ends = pc.min_max(raw)
    return ends["min"].as_py(), ends["max"].as_py()
