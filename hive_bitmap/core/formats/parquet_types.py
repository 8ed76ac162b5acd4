"""Decide by types which columns of Parquet files Arrow reads like Spark.

The module holds an allowlist of pairs (stored kind, table type), with conditions. Spark 4 reads each of these pairs
without an error, and tests compared the values. Dates and timestamps need more care: writers with the hybrid calendar
stored other numbers for days before 1582-10-15 and timestamps before 1900. Only the metadata of Spark's own writer
proves which calendar was used. For the files of other writers, Spark decides by the session's configuration, so only
Spark reads old values in such files. See `datetimeRebaseSpec` and `int96RebaseSpec` in
https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/DataSourceUtils.scala.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from hive_bitmap.core.formats.calendar_checks import FIRST_DAY, FIRST_MICROSECOND
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.errors import Undecodable

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "varchar", "char")

# For each stored kind (`stored_kind`), the table types as which Arrow reads it like Spark.
SAFE_CONVERSIONS: Mapping[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "int8": (*_INTEGERS, "double"),
    "int16": (*_INTEGERS[1:], "double"),
    "int32": (*_INTEGERS[2:], "double"),
    "int64": ("bigint",),
    "uint8": ("smallint",),
    "uint16": ("int",),
    "uint32": ("bigint",),
    "float": ("float", "double"),
    "double": ("double",),
    "string": (*_TEXTS, "binary"),
    "bytes": (*_TEXTS, "binary"),
    "FIXED_LEN_BYTE_ARRAY": ("binary",),
    "date": ("date",),
    "timestamp[us, utc]": ("timestamp",),
    "timestamp[ms, utc]": ("timestamp",),
    "timestamp[us]": ("timestamp", "timestamp_ntz"),
    "timestamp[ms]": ("timestamp", "timestamp_ntz"),
    "int96": ("timestamp",),
}
# Spark truncates values that do not fit, so whether these pairs can be read depends on the values.
NARROWED: Mapping[str, tuple[str, ...]] = {"int16": ("tinyint",), "int32": ("tinyint", "smallint")}

# For each stored kind, the table types whose order in Spark is the order of the statistics.
BOUNDED: Mapping[str, tuple[str, ...]] = {
    "int8": _INTEGERS,
    "int16": _INTEGERS[1:],
    "int32": _INTEGERS[2:],
    "int64": ("bigint",),
    "date": ("date",),
    "timestamp[us, utc]": ("timestamp",),
    "timestamp[ms, utc]": ("timestamp",),
    "timestamp[us]": ("timestamp_ntz",),
    "timestamp[ms]": ("timestamp_ntz",),
}

_SPARK_VERSION, _LEGACY_CALENDAR, _LEGACY_INT96 = (
    b"org.apache.spark.version",
    b"org.apache.spark.legacyDateTime",
    b"org.apache.spark.legacyINT96",
)
_PLAIN_KINDS = {"BOOLEAN": "boolean", "INT32": "int32", "INT64": "int64", "INT96": "int96", "FLOAT": "float"} | {
    "DOUBLE": "double",
    "BYTE_ARRAY": "bytes",
}
_UNITS = {"milliseconds": "ms", "microseconds": "us"}


@dataclass(frozen=True)
class Conversion:
    """How to read a stored column as a table column.

    `floor` is the least stored value (days or microseconds since 1970) that Arrow and Spark read alike; None if all
    values are read alike. `narrowed` says whether a stored value may be too large for the type of the table's column.
    """

    floor: int | None = None
    narrowed: bool = False

    @property
    def always_alike(self) -> bool:
        """Whether Arrow and Spark read every value alike."""
        return self.floor is None and not self.narrowed


def conversion_for(leaf: pq.ColumnSchema, column: KeyColumn, metadata: Mapping[bytes, bytes] | None) -> Conversion:
    """Return how a column of the table is read from the file.

    `leaf` is the column of the file. `metadata` is the key-value metadata of the file's footer, or None if there is
    none. Raises Undecodable unless Arrow reads the type of `leaf` like Spark. Values below the `floor` of the result
    may still differ, and values may not fit if the result is `narrowed`.
    """
    kind = stored_kind(leaf)
    if kind == "decimal":
        return _decimal_conversion(leaf, column)
    if column.base in NARROWED.get(kind, ()):
        return Conversion(narrowed=True)
    if column.base not in SAFE_CONVERSIONS.get(kind, ()):
        raise Undecodable(f"column {column.name!r} is stored as {describe(leaf)}, the table says {column.type}")
    if column.base == "date":
        return Conversion(floor=None if _proleptic(metadata, (3, 0), _LEGACY_CALENDAR) else FIRST_DAY)
    if kind == "int96":
        return Conversion(floor=None if _proleptic(metadata, (3, 1), _LEGACY_INT96) else FIRST_MICROSECOND)
    if column.base == "timestamp":
        return Conversion(floor=None if _proleptic(metadata, (3, 0), _LEGACY_CALENDAR) else FIRST_MICROSECOND)
    return Conversion()


def stored_kind(leaf: pq.ColumnSchema) -> str:
    """Return the kind of a stored column.

    The result is a key of SAFE_CONVERSIONS, `decimal`, or the text of an unsupported type.
    """
    logical: dict[str, Any] = json.loads(leaf.logical_type.to_json())
    match logical["Type"]:
        case "None":
            return _PLAIN_KINDS.get(leaf.physical_type, str(leaf.physical_type))
        case "Int":
            return f"{'' if logical['isSigned'] else 'u'}int{logical['bitWidth']}"
        case "String" | "Enum" | "JSON":
            return "string"
        case "BSON":
            return "bytes"
        case "Date":
            return "date"
        case "Decimal":
            return "decimal"
        case "Timestamp":
            utc = ", utc" if logical["isAdjustedToUTC"] else ""
            return f"timestamp[{_UNITS.get(logical['timeUnit'], logical['timeUnit'])}{utc}]"
        case other:
            return str(other)


def describe(leaf: pq.ColumnSchema) -> str:
    """Return the physical and logical type of a stored column."""
    logical = leaf.logical_type.type
    return leaf.physical_type if logical == "NONE" else f"{leaf.physical_type} ({logical})"


def _decimal_conversion(leaf: pq.ColumnSchema, column: KeyColumn) -> Conversion:
    """Return how a stored decimal is read.

    Raises Undecodable if the table's type is not a decimal. Also raises Undecodable if the table's type has too few
    digits before or after the decimal point; Spark also raises an error then.
    """
    if column.base == "decimal":
        precision, scale = column.parameters or (10, 0)
        if scale >= leaf.scale and precision - scale >= leaf.precision - leaf.scale:
            return Conversion()
    stored = f"decimal({leaf.precision},{leaf.scale})"
    raise Undecodable(f"column {column.name!r} is stored as {stored}, the table says {column.type}")


def _proleptic(metadata: Mapping[bytes, bytes] | None, since: tuple[int, int], legacy: bytes) -> bool:
    """Return whether a file certainly uses the proleptic calendar.

    The metadata must show that Spark of version `since` or later wrote the file, and must not have the key `legacy`.
    `metadata` is the key-value metadata of the file's footer; None proves nothing.
    """
    metadata = metadata or {}
    version = metadata.get(_SPARK_VERSION, b"").split(b".")[:2]
    numbers = tuple(int(part) for part in version if part.isdigit())
    return len(numbers) == 2 and numbers >= since and legacy not in metadata
