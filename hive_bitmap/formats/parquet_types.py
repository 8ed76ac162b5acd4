"""Which columns of a Parquet file show, read by Arrow, the values that Spark shows, and under what condition.

An allowlist: pairs of stored kind and table type that Spark 4 reads without an error and that were compared with it.
Dates and timestamps need more: a writer of the legacy calendar stored other numbers for days before 1582-10-15 (times
before 1900), and only the metadata of Spark's own writer proves which calendar it was; for other writers the session's
configuration decides, so there such values are left to Spark. These are `datetimeRebaseSpec` and `int96RebaseSpec` of
https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/DataSourceUtils.scala.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.calendar_checks import FIRST_DAY, FIRST_MICROSECOND
from hive_bitmap.formats.key_values import KeyColumn

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "varchar", "char")

ALIKE: Mapping[str, tuple[str, ...]] = {
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
# Spark cuts off the high bits of a value that does not fit; so only the values can tell.
NARROWED: Mapping[str, tuple[str, ...]] = {"int16": ("tinyint",), "int32": ("tinyint", "smallint")}

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
    """How a stored column may be read as a table column.

    `floor`: the least stored value (days or microseconds since 1970) that is sure to read alike, None if all do;
    `narrowed`: whether a value may not fit.
    """

    floor: int | None = None
    narrowed: bool = False

    @property
    def always_alike(self) -> bool:
        """Whether no value can differ from what Spark shows."""
        return self.floor is None and not self.narrowed


def reading(leaf: pq.ColumnSchema, column: KeyColumn, metadata: Mapping[bytes, bytes] | None) -> Conversion:
    """How `column` of the table is read from `leaf` of a file with this key-value metadata; raises Undecodable."""
    kind = stored_kind(leaf)
    if kind == "decimal":
        return _decimal_reading(leaf, column)
    if column.base in NARROWED.get(kind, ()):
        return Conversion(narrowed=True)
    if column.base not in ALIKE.get(kind, ()):
        raise Undecodable(f"column {column.name!r} is stored as {describe(leaf)}, the table says {column.type}")
    if column.base == "date":
        return Conversion(floor=None if _proleptic(metadata, (3, 0), _LEGACY_CALENDAR) else FIRST_DAY)
    if kind == "int96":
        return Conversion(floor=None if _proleptic(metadata, (3, 1), _LEGACY_INT96) else FIRST_MICROSECOND)
    if column.base == "timestamp":
        return Conversion(floor=None if _proleptic(metadata, (3, 0), _LEGACY_CALENDAR) else FIRST_MICROSECOND)
    return Conversion()


def stored_kind(leaf: pq.ColumnSchema) -> str:
    """The key of ALIKE for a stored column, `decimal`, or a text that is in neither."""
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
    """The stored type in the words of the file: physical and logical type."""
    logical = leaf.logical_type.type
    return leaf.physical_type if logical == "NONE" else f"{leaf.physical_type} ({logical})"


def _decimal_reading(leaf: pq.ColumnSchema, column: KeyColumn) -> Conversion:
    """Spark refuses what loses digits before or after the point."""
    if column.base == "decimal":
        precision, scale = column.parameters or (10, 0)
        if scale >= leaf.scale and precision - scale >= leaf.precision - leaf.scale:
            return Conversion()
    stored = f"decimal({leaf.precision},{leaf.scale})"
    raise Undecodable(f"column {column.name!r} is stored as {stored}, the table says {column.type}")


def _proleptic(metadata: Mapping[bytes, bytes] | None, since: tuple[int, int], legacy: bytes) -> bool:
    """Whether Spark itself wrote the file, with the calendar that it reads by, and said so."""
    metadata = metadata or {}
    version = metadata.get(_SPARK_VERSION, b"").split(b".")[:2]
    numbers = tuple(int(part) for part in version if part.isdigit())
    return len(numbers) == 2 and numbers >= since and legacy not in metadata
