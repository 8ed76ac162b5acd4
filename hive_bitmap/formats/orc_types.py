"""Which columns of an ORC file show, read by Arrow, the values that Spark shows, and under what condition.

An allowlist, as for Parquet. Dates before 1582-10-15 and timestamps before 1900 are left to Spark whatever the writer:
Spark takes the days of ORC files for days of the legacy calendar. A `timestamp` is wall-clock time to Arrow, and to
Spark an instant of the zone in which its JVM runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.calendar_checks import FIRST_DAY, FIRST_MICROSECOND
from hive_bitmap.formats.key_values import KeyColumn

ALIKE: Mapping[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "tinyint": ("tinyint", "smallint", "int", "bigint", "double"),
    "smallint": ("smallint", "int", "bigint", "double"),
    "int": ("int", "bigint", "double"),
    "bigint": ("bigint",),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string", "varchar", "char"),
    "varchar": ("string", "varchar", "char"),
    "char": ("string", "varchar", "char"),
    "binary": ("binary",),
    "date": ("date",),
    "timestamp": ("timestamp",),
    "timestamp with local time zone": ("timestamp",),
    "timestamp_ntz": ("timestamp_ntz",),
}


@dataclass(frozen=True)
class Conversion:
    """How a stored column may be read as a table column.

    `floor`: the least value (days or microseconds since 1970) that is sure to read alike, None if all do;
    `zone`: where the stored wall-clock times become instants, "" where they are not to be placed;
    `padded`: whether the stored strings have blanks at their ends that are none of the value.
    """

    floor: int | None = None
    zone: str = ""
    padded: bool = False


def reading(stored: KeyColumn, column: KeyColumn) -> Conversion:
    """How `column` of the table is read from the file's column `stored`; raises Undecodable."""
    if not (column.base in ALIKE.get(stored.base, ()) or _holds(column, stored)):
        raise Undecodable(f"column {column.name!r} is stored as {stored.type}, the table says {column.type}")
    if column.base == "date":
        return Conversion(floor=FIRST_DAY)
    if column.base != "timestamp":
        return Conversion(padded=stored.base == "char")
    if stored.type != "timestamp":
        return Conversion(FIRST_MICROSECOND)
    if not column.time_zone:
        raise Undecodable(f"column {column.name!r} holds wall-clock times, and the engine's time zone is not known")
    return Conversion(FIRST_MICROSECOND, column.time_zone)


def _holds(column: KeyColumn, stored: KeyColumn) -> bool:
    """Whether both are decimals and no stored one loses digits, before or after the point, as the table's type."""
    if column.base != "decimal" or stored.base != "decimal" or not stored.parameters:
        return False
    (precision, scale), (stored_precision, stored_scale) = column.parameters or (10, 0), stored.parameters
    return scale >= stored_scale and precision - scale >= stored_precision - stored_scale
