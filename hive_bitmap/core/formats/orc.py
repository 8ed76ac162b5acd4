"""Read ORC files, whose blocks are stripes.

A stripe is identified by the position of its first byte. The file footer lists the stripes, see `StripeInformation` in
https://orc.apache.org/specification/ORCv1/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.formats import orc_streams, orc_tail
from hive_bitmap.core.formats.blocks import Blocks, Bounds, known_bounds
from hive_bitmap.core.formats.calendar_checks import (
    FIRST_DAY,
    GREGORIAN,
    as_keys,
    require_at_least,
    require_whole_seconds_near_1970,
)
from hive_bitmap.core.formats.key_values import KeyColumn, Values, arrow_type, converted, decoding, is_simple, nulls
from hive_bitmap.core.formats.orc_file import Conversion, OrcHandle, RowReader, find, footer, open_file, statistics
from hive_bitmap.core.formats.orc_tail import StripeStatistics
from hive_bitmap.errors import Undecodable

__all__ = [
    "OrcHandle",
    "blocks",
    "bounds",
    "by_name",
    "bytes_at_once",
    "column_bytes",
    "key_columns",
    "names",
    "nested_marks",
    "open_file",
    "read_rows",
    "read_together",
    "rehearse",
    "spark_only_columns",
]

_FIXED_BYTES = 16  # most bytes of a value that is not text
_NUMBERS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_WITHOUT_TIMESTAMPS = frozenset((*_NUMBERS, "string", "char", "varchar", "binary", "date"))
_BOUNDED = ("tinyint", "smallint", "int", "bigint", "date")  # types whose statistics bound the values
_FIXED_ZONES = ("UTC", "GMT", "Etc/UTC", "Z")
# Range of the timestamps that pyarrow certainly reads correctly. It begins after the second before 1970, whose sign is
# lost, and ends before 64-bit nanoseconds overflow, with a margin of a day for time zones.
_FIRST_SURE = datetime(1970, 1, 3, tzinfo=timezone.utc)
_LAST_SURE = datetime(2262, 4, 10, tzinfo=timezone.utc)

Located = tuple[str, Conversion] | None


def blocks(handle: OrcHandle) -> Blocks:
    """Return the stripes of the file.

    The `offset` of a block is the position of its stripe. `length` includes index, data and stripe footer.
    """
    with decoding("its list of stripes"):
        stripes = list(footer(handle.source).iter_stripes())
        if stripes and not handle.columns:
            raise Undecodable("a file without columns, in which Spark sees no rows")
        return Blocks.of(
            [stripe.bytes_offset for stripe in stripes],
            [stripe.bytes_length for stripe in stripes],
            [len(stripe) for stripe in stripes],
        )


def names(handle: OrcHandle) -> list[str]:
    """Return the names of the columns.

    The result is empty if the columns of the file are found by position.
    """
    return [] if handle.positional else [column.name for column in handle.columns]


def by_name(handle: OrcHandle) -> bool:
    """Return whether the keys depend only on their own columns (`Format.by_name`).

    If the file names its columns, Spark finds the keys even if the columns of the table are moved. But Spark compares
    the timestamp types of the file with the timestamp types of the table by position, also inside nested types. Spark
    fails if only one of two compared types has a time zone (`checkTimestampCompatibility` of OrcUtils). So the result
    is True only if the file names its columns, and all of them have simple types without timestamps.
    """
    return bool(names(handle)) and all(column.base in _WITHOUT_TIMESTAMPS for column in handle.columns)


def column_bytes(handle: OrcHandle, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
    """Return the size of each stripe in bytes.

    The file footer does not give the sizes of single columns.
    """
    return np.maximum(blocks(handle).length, 1)


def key_columns(handle: OrcHandle, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
    """Return the columns of one stripe as keys, in the given order.

    `block` is the position of the stripe in the file. Raises Undecodable if a value may differ from what Spark reads.
    """
    located = [find(handle, column) for column in columns]
    positions = handle.positions(_names(handle, located))
    orc_streams.require_sound_lengths(handle.source, handle.tail, block, positions)
    stripe = _stripe(handle, block, located)
    keys = [
        as_keys(_table_values(stripe, column, at), column.name) for column, at in zip(columns, located, strict=True)
    ]
    return pa.Table.from_arrays(keys, names=[column.name for column in columns])


def bytes_at_once(path: str, columns: Sequence[KeyColumn]) -> int:
    """Estimate how many bytes `read_rows` decodes at once.

    The result is the decoded size of the given columns in a stripe of average size, estimated from the footer. Raises
    FileNotFoundError or Undecodable.
    """
    handle = open_file(path)
    with handle.source:
        return _bytes_at_once(handle, columns)


def _bytes_at_once(handle: OrcHandle, columns: Sequence[KeyColumn]) -> int:
    with decoding("its footer"):
        opened, located = footer(handle.source), [find(handle, column) for column in columns]
        texts = sum(statistics(opened, at[0]).get("total_length", 0) for at in located if at is not None)
        stripes, rows = max(opened.num_of_stripes, 1), len(opened)
    return (texts + _FIXED_BYTES * rows * len(columns)) // stripes


def nested_marks(handle: OrcHandle, schema: Sequence[KeyColumn]) -> list[str]:
    """Return no marks (see `Format.nested_marks`): only Spark reads nested columns of ORC files."""
    return []


def bounds(handle: OrcHandle, columns: Sequence[KeyColumn]) -> dict[str, Bounds]:
    """Return the bounds of integers and dates in each stripe.

    The bounds come from the statistics of the stripes. If these statistics are damaged or too large, the result is
    empty, and no error is raised, because nothing else needs the statistics.
    """
    places = {column: number for column in columns if (number := _place(handle, column)) is not None}
    if not places:
        return {}
    rows = blocks(handle).rows.tolist()
    try:
        stripes = orc_tail.stripe_statistics(handle.source, [*places.values()])
    except Undecodable:
        return {}
    if len(stripes) != len(rows):
        return {}
    return {
        column.name: Bounds.of(
            [_stated_bounds(column, count, stripe[number]) for count, stripe in zip(rows, stripes, strict=True)]
        )
        for column, number in places.items()
    }


def _place(handle: OrcHandle, column: KeyColumn) -> int | None:
    """Return the number by which ORC stores the statistics of a column.

    Return None if the file lacks the column, if only Spark can read the column, or if the column's type has no reliable
    bounds (`_BOUNDED`).
    """
    if column.base not in _BOUNDED:
        return None
    try:
        at = find(handle, column)
    except Undecodable:  # only Spark reads the column
        return None
    if at is None:
        return None
    [stored] = [stored for stored in handle.columns if stored.name == at[0]]
    [position] = handle.positions([at[0]])
    return handle.tail.top[position] if stored.base in _BOUNDED else None


def _stated_bounds(column: KeyColumn, rows: int, stated: StripeStatistics | None) -> tuple[int, int, int] | None:
    """Return the bounds of a column in a stripe with `rows` rows.

    The result is a tuple (NULLs, smallest value, largest value), or None if the bounds are not certain. `stated` has
    the statistics of the column in the stripe; None if there are none.
    """
    if stated is None or stated.values is None:
        return None
    floor = FIRST_DAY if column.base == "date" else None
    return known_bounds(rows, rows - stated.values, stated.low, stated.high, floor)


def rehearse(handle: OrcHandle, schema: Sequence[KeyColumn]) -> None:
    """Read everything in the footers that queries will read later; see `Format.rehearse`.

    Raises Undecodable.
    """
    with decoding("the footers of its stripes"):
        orc_streams.require_sound_stripes(handle.source, handle.tail)
    only_spark = spark_only_columns(handle, schema)
    columns = [column for column in schema if column.name not in only_spark]
    _bytes_at_once(handle, columns)
    RowReader(handle, _names(handle, [find(handle, column) for column in columns])).rehearse()


def spark_only_columns(handle: OrcHandle, schema: Sequence[KeyColumn]) -> dict[str, str]:
    """Return the table columns that only Spark may read from this file.

    The result has the reason for each of these columns, by column name. Only the footer is read.
    """
    if handle.positional and len(handle.columns) > len(schema) and any(column.field_id is None for column in schema):
        return {column.name: "the file has more columns than the table, and no names" for column in schema}
    reasons = ((column.name, _reason(handle, column)) for column in schema)
    return {name: reason for name, reason in reasons if reason}


def read_rows(
    path: str, columns: Sequence[KeyColumn], selection: Sequence[tuple[int, npt.NDArray[np.int64] | None]]
) -> Iterator[pa.RecordBatch]:
    """Yield the selected rows in file order.

    The values have the Arrow types of `key_values.arrow_type`. `columns` must not be in `spark_only_columns`.
    `selection` has pairs (position of a block in the file, numbers of its selected rows), ascending by block. The row
    numbers are 0-based inside the block and ascending; None stands for all rows. Raises FileNotFoundError or
    Undecodable when the first or a later batch is requested.
    """
    handle = open_file(path)
    schema = pa.schema([(column.name, arrow_type(column)) for column in columns])
    with handle.source:
        located = [find(handle, column) for column in columns]
        stored = _names(handle, located)
        reader, positions = RowReader(handle, stored), handle.positions(stored)
        sizes = blocks(handle).rows
        for block, rows in selection:
            orc_streams.require_sound_lengths(handle.source, handle.tail, block, positions)
            selected_rows = (
                reader.read(block, rows) if rows is not None and reader.pays(len(rows), sizes[block]) else None
            )
            if selected_rows is None:
                stripe = _stripe(handle, block, located)
                selected_rows = stripe if rows is None else stripe.take(pa.array(rows))
            if selected_rows.num_rows:
                values = [_table_values(selected_rows, column, at) for column, at in zip(columns, located, strict=True)]
                yield pa.RecordBatch.from_arrays(values, schema=schema)


def read_together(
    files: Sequence[tuple[str, Sequence[tuple[int, npt.NDArray[np.int64] | None]]]], columns: Sequence[KeyColumn]
) -> None:
    """Return None, so that the caller reads each file by itself."""


def _stripe(handle: OrcHandle, block: int, located: Sequence[Located]) -> pa.RecordBatch:
    with decoding(f"block {block}"):
        return handle.file.read_stripe(block, columns=_names(handle, located))


def _names(handle: OrcHandle, located: Sequence[Located]) -> list[str]:
    """Return the names of the stored columns to read.

    `located` says for each requested column where the file stores the column (see `find`). If the file has none of the
    requested columns, the result is the file's first column, which gives the number of rows.
    """
    return sorted({at[0] for at in located if at is not None}) or [column.name for column in handle.columns[:1]]


def _table_values(stripe: pa.RecordBatch, column: KeyColumn, at: Located) -> Values:
    if at is None:
        return nulls(column, stripe.num_rows)
    name, how = at
    values = stripe.column(name)
    if pa.types.is_timestamp(values.type):
        values = _micros(values, how.zone, column.name)
    if how.padded:
        values = pc.utf8_rtrim(values, " ")
    result = converted(values, column)
    if how.floor is not None:
        require_at_least(result, how.floor, column.name)
    return result


def _micros(values: Values, zone: str, name: str) -> Values:
    """Round timestamps down to microseconds, as Spark does.

    Local timestamps become instants in the time zone `zone`, unless `zone` is "". `name` is the name of the column, for
    error messages.
    """
    micros = pc.floor_temporal(values, unit="microsecond").cast(pa.timestamp("us", values.type.tz))
    require_whole_seconds_near_1970(micros, name)
    if not zone:
        return micros
    with decoding(f"column {name!r}"):
        return pc.assume_timezone(micros, zone, ambiguous="raise", nonexistent="raise")


def _reason(handle: OrcHandle, column: KeyColumn) -> str:
    if not is_simple(column):
        return f"column {column.name!r} is nested or of a type without a key: {column.type}"
    try:
        at = find(handle, column)
    except Undecodable as error:
        return str(error)
    if at is None or at[1].floor is None:
        return ""
    if at[1].zone not in ("", *_FIXED_ZONES):
        return f"column {column.name!r} holds wall-clock times that may not exist, or exist twice, in {at[1].zone}"
    if not _statistics_within(handle, at[0], column):
        return f"column {column.name!r} may hold values of another calendar, before 1970, or after 2262"
    return ""


def _statistics_within(handle: OrcHandle, name: str, column: KeyColumn) -> bool:
    """Return whether pyarrow and Spark certainly read all values alike.

    `column` has dates or timestamps, and `name` is its name in the file. The range of the values according to the
    footer is compared with the range that both readers read alike.
    """
    try:
        stats = statistics(footer(handle.source), name)
    except Undecodable:  # such as a date that Python's `date` cannot hold
        return False
    if stats.get("number_of_values") == 0:
        return True
    least, greatest = stats.get("minimum"), stats.get("maximum")
    if column.base == "date":
        return type(least) is date and least >= GREGORIAN
    if not (isinstance(least, datetime) and isinstance(greatest, datetime)):
        return False
    return least >= _FIRST_SURE and greatest <= _LAST_SURE
