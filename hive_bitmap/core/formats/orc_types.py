"""The types that Arrow reads from ORC files like Spark.

Each has its conditions. This is an allowlist, as for Parquet. Dates before 1582-10-15 and timestamps before 1900 are
left to Spark for every writer, because Spark takes the days in ORC files as days of the hybrid calendar. Arrow reads a
`timestamp` as local time; Spark interprets it as an instant in the default time zone of its JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hive_bitmap.core.formats.calendar_checks import FIRST_DAY, FIRST_MICROSECOND
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.errors import Undecodable

# Types of the file, and the table types that they may be read as.
SAFE_CONVERSIONS: Mapping[str, tuple[str, ...]] = {
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

    `floor`: the least value (days or microseconds since 1970) that Arrow and Spark read alike, None if all are;
    `zone`: the time zone in which stored local timestamps become instants, "" if they are not to be converted;
    `padded`: whether the stored strings are padded with blanks that do not belong to the value.
    """

    floor: int | None = None
    zone: str = ""
    padded: bool = False


def conversion_for(stored: KeyColumn, column: KeyColumn) -> Conversion:
    """Return how a column of the table is read from the file.

    `stored` is the file's column. Raises Undecodable.
    """
    if not (column.base in SAFE_CONVERSIONS.get(stored.base, ()) or _is_wider_decimal(column, stored)):
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


def _is_wider_decimal(column: KeyColumn, stored: KeyColumn) -> bool:
    """Return whether a decimal has all digits of the stored decimal.

    These are the digits before and after the point; both columns must be decimals.
    """
    if column.base != "decimal" or stored.base != "decimal" or not stored.parameters:
        return False
    (precision, scale), (stored_precision, stored_scale) = column.parameters or (10, 0), stored.parameters
    return scale >= stored_scale and precision - scale >= stored_precision - stored_scale
