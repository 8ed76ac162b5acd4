"""Convert values of key columns to Arrow types and to stored keys.

Two keys are equal if Spark's GROUP BY would put them into one group: CHAR is padded with blanks to its length, -0.0
becomes 0.0, and all NaNs become the same NaN.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column
from hive_bitmap.core.nested_types import ArrayOf, MapOf, NestedType, StructOf, parse
from hive_bitmap.errors import Undecodable, Unsupported

Values: TypeAlias = "pa.Array | pa.ChunkedArray"

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_INTEGER = r"^-?[0-9]{1,19}$"
# For each type of partition columns, the pattern of the texts that Arrow reads as Spark does.
_CANONICAL = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _INTEGER),
    "date": r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$",
    "boolean": "^(true|false)$",
}
# Characters of column names that Spark, Arrow, DuckDB and pyorc find, according to our tests: ASCII punctuation, and
# the categories of Unicode for letters, combining marks and numbers.
_SIGNS = frozenset(" !\"#$%&'()*+,-./:;<=>?@[\\]^_{|}~")
_CATEGORIES = frozenset("LMN")
_TYPE = re.compile(r"(?P<base>[a-z_]+)(?:\((?P<first>\d+)(?:,\s*(?P<second>\d+))?\))?(?: collate \S+)?", re.IGNORECASE)


@dataclass(frozen=True)
class KeyColumn:
    """A column of the table: its name and Spark type.

    `type` is Spark's simple string. `file_name` is the column's name in Parquet files; "" if files have the column
    under `name`. If `field_id` is not None, the column is found in files by this id instead of a name.

    `time_zone` and `position` are needed for ORC files only. `time_zone` is the default time zone of the engine's JVM,
    in which Spark interprets the local timestamps of ORC. If `time_zone` is "", only Spark reads columns with local
    timestamps. `position` is the column's 0-based position among the table's columns, without partition columns; None
    if no ORC file is read. In files without column names, columns are found by `position`.
    """

    name: str
    type: str
    time_zone: str = ""
    position: int | None = None
    file_name: str = ""
    field_id: int | None = None

    @property
    def base(self) -> str:
        """The type without its parameters.

        The result is `decimal` for `decimal(7,2)`. For a nested type, the result is the whole type.
        """
        match = _TYPE.fullmatch(self.type)
        return match["base"].lower() if match else self.type

    @property
    def parameters(self) -> tuple[int, ...]:
        """The parameters of the type.

        The result is (precision, scale) for a decimal, (length,) for char and varchar, and () for other types.
        """
        match = _TYPE.fullmatch(self.type)
        return tuple(int(number) for number in (match["first"], match["second"]) if number) if match else ()


def has_plain_name(name: str) -> bool:
    """Return whether all readers find a column by this name.

    Only the characters of the name are judged.

    >>> has_plain_name("größe (cm)"), has_plain_name("a`b")
    (True, False)
    """
    return all(character in _SIGNS or unicodedata.category(character)[0] in _CATEGORIES for character in name)


def is_simple(column: KeyColumn) -> bool:
    """Return whether the column can be a key.

    A key's type must not be nested, an interval, or a variant.
    """
    return column.base == "decimal" or column.base in _ARROW


def arrow_type(column: KeyColumn) -> pa.DataType:
    """Return the Arrow type of the column's values.

    Raises Unsupported for a type that cannot be a key.
    """
    if column.base == "decimal":
        return pa.decimal128(*(column.parameters or (10, 0)))
    if column.base not in _ARROW:
        raise Unsupported(f"column {column.name!r} of type {column.type} cannot be read by blocks")
    return _ARROW[column.base]


def arrow_of(type: NestedType) -> pa.DataType:
    """Return the Arrow type to which PySpark maps a leaf or nested type."""
    match type:
        case ArrayOf(element):
            return pa.list_(arrow_of(element))
        case MapOf(key, value):
            return pa.map_(arrow_of(key), arrow_of(value))
        case StructOf(fields):
            return pa.struct([(name, arrow_of(inner)) for name, inner in fields])
    return arrow_type(KeyColumn("", type))


def column_type(column: KeyColumn) -> pa.DataType:
    """Return the Arrow type in which tasks read a column, nested or not.

    Raises Unsupported for a type that tasks do not read.
    """
    nested = None if is_simple(column) else parse(column.type)
    return arrow_type(column) if nested is None else arrow_of(nested)


def nulls(column: KeyColumn, rows: int) -> pa.Array:
    """Return `rows` NULLs, which is how Spark reads a column that the file lacks."""
    return pa.nulls(rows, column_type(column))


def converted(values: Values, column: KeyColumn) -> Values:
    """Cast the values to the column's Arrow type and pad CHAR.

    Strings may stay dictionary-encoded. Raises Undecodable if a value does not fit the type. For such a value, Spark
    would overflow, fail or return NULL.
    """
    target = arrow_type(column)
    with decoding(f"column {column.name!r}"):
        if pa.types.is_dictionary(values.type):
            if pa.types.is_string(target):
                return _with_dictionary(values, column)
            values = values.cast(values.type.value_type)
        if values.type != target:
            values = pc.cast(values, options=pc.CastOptions(target, allow_invalid_utf8=True))
        return _padded(values, column)


def canonical(values: Values) -> Values:
    """Return the values in the form in which keys are stored.

    -0.0 becomes 0.0, and all NaNs become the same NaN. Raises Undecodable for strings that are not UTF-8. Rows may
    contain such strings, because Spark does not validate strings; but readers of an index table may reject them.
    """
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        type = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        kind = "UTF-8 text" if pa.types.is_string(type) else f"values of type {type}"
        raise Undecodable(f"some of its keys are not valid {kind}") from error
    if not pa.types.is_floating(values.type):
        return values
    zeroed = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(zeroed), pa.scalar(float("nan"), values.type), zeroed)


def partition_values(column: Column, texts: Sequence[str | None]) -> pa.Array | None:
    """Convert texts of a partition column to Arrow values, as Spark does.

    The text None is NULL. The result is None if only Spark can read one of the texts.

    >>> partition_values(Column("day", "date"), ["2026-02-28", None]).to_pylist()
    [datetime.date(2026, 2, 28), None]
    >>> partition_values(Column("day", "date"), ["2026-02-30"]) is None
    True
    """
    array = pa.array(texts, pa.string())
    if column.type == "string":
        return array
    pattern = _CANONICAL.get(column.type)
    if pattern is None or not pc.all(pc.match_substring_regex(array, pattern), min_count=0).as_py():
        return None
    try:
        return array.cast(arrow_type(KeyColumn(column.name, column.type)))
    except pa.ArrowInvalid:  # a number out of range, or a day such as February 30
        return None


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Convert errors about the content of a file to Undecodable.

    `what` names the decoded part of the file, for the message. ArrowException, ValueError, OverflowError, IndexError
    and OSErrors without an errno are converted. Errors of the store, which have an errno, are raised unchanged.
    """
    try:
        yield
    except (pa.ArrowException, ValueError, OverflowError, IndexError) as error:
        raise Undecodable(f"{what} cannot be decoded: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise Undecodable(f"{what} cannot be decoded: {error}") from error


def _with_dictionary(values: Values, column: KeyColumn) -> Values:
    """Convert dictionary-encoded values by converting only their dictionaries.

    So each distinct value is converted once instead of once for each row.
    """
    if isinstance(values, pa.ChunkedArray):
        chunks = [_with_dictionary(chunk, column) for chunk in values.chunks]
        return pa.chunked_array(chunks, type=pa.dictionary(values.type.index_type, pa.string()))
    return pa.DictionaryArray.from_arrays(values.indices, converted(values.dictionary, column))


def _padded(values: Values, column: KeyColumn) -> Values:
    return pc.utf8_rpad(values, column.parameters[0], " ") if column.base == "char" else values
