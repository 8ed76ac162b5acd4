"""Read Parquet files, whose blocks are row groups.

A row group is identified by the position of the first data page of its first column, after the dictionary page. Hive's
reader assigns a row group to a split by this position, see
https://github.com/apache/hive/blob/rel/release-2.3.9/ql/src/java/org/apache/hadoop/hive/ql/io/parquet/ParquetRecordReaderBase.java.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core.formats import parquet_file, parquet_nested, parquet_rows
from hive_bitmap.core.formats.blocks import Blocks, Bounds, known_bounds
from hive_bitmap.core.formats.calendar_checks import FIRST_DAY, FIRST_MICROSECOND, as_keys, require_at_least
from hive_bitmap.core.formats.key_values import KeyColumn, Values, converted, decoding, is_simple, nulls
from hive_bitmap.core.formats.parquet_file import ParquetHandle, find, open_file
from hive_bitmap.core.formats.parquet_rows import bytes_at_once, read_rows, read_together
from hive_bitmap.core.formats.parquet_types import BOUNDED, Conversion, stored_kind
from hive_bitmap.errors import Undecodable

__all__ = [
    "ParquetHandle",
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


def blocks(handle: ParquetHandle) -> Blocks:
    """Return the row groups of the file.

    The `offset` of a block is the position of the first data page of the row group's first column. `length` is the
    compressed size of the row group.
    """
    with decoding("its list of row groups"):
        groups = [handle.metadata.row_group(ordinal) for ordinal in range(handle.metadata.num_row_groups)]
        if groups and not handle.metadata.num_columns:
            raise Undecodable("a file without columns has no offsets")
        return Blocks.of(
            [group.column(0).data_page_offset for group in groups],
            [sum(group.column(c).total_compressed_size for c in range(group.num_columns)) for group in groups],
            [group.num_rows for group in groups],
            [_first_byte(group.column(0)) for group in groups],
        )


def _first_byte(chunk: pq.ColumnChunkMetaData) -> int:
    """Return the position of the first byte of a column chunk.

    The first byte is in the dictionary page if this page comes before the data pages.
    """
    start: int = chunk.data_page_offset
    return min(start, chunk.dictionary_page_offset) if chunk.has_dictionary_page else start


def names(handle: ParquetHandle) -> list[str]:
    """Return the names of the top-level columns of the file."""
    return handle.names


def by_name(handle: ParquetHandle) -> bool:
    """Return True: columns of Parquet files are found by name or id."""
    return True


def column_bytes(handle: ParquetHandle, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
    """Return the compressed size of columns in each row group.

    A size is in bytes, plus 1, so that no size is 0.
    """
    leaves = [handle.leaves[at[0]] for column in columns if (at := find(handle, column)) is not None]
    with decoding("its list of row groups"):
        groups = [handle.metadata.row_group(ordinal) for ordinal in range(handle.metadata.num_row_groups)]
        return np.array([1 + sum(group.column(c).total_compressed_size for c in leaves) for group in groups], np.int64)


def key_columns(handle: ParquetHandle, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
    """Return the columns of one row group as keys, in the given order.

    `block` is the position of the row group in the file. Strings may be dictionary-encoded. Raises Undecodable if a
    value may differ from what Spark reads.
    """
    places = {column.name: find(handle, column) for column in columns}
    names = sorted({at[0] for at in places.values() if at is not None})
    texts = [
        at[0] for column in columns if (at := places[column.name]) and column.base in ("string", "varchar", "char")
    ]
    texts = [name for name in texts if not handle.is_delta(name, [block])]
    with decoding(f"block {block}"):
        table = handle.reader(texts).read_row_group(block, columns=names, use_threads=False)
    rows = handle.metadata.row_group(block).num_rows
    keys = [_key(table, column, places[column.name], rows) for column in columns]
    return pa.Table.from_arrays(keys, names=[column.name for column in columns])


def spark_only_columns(handle: ParquetHandle, schema: Sequence[KeyColumn]) -> dict[str, str]:
    """Return the table columns that only Spark may read from this file.

    The result has the reason for each of these columns, by column name. `schema` are the columns of the table. Only the
    footer is read.
    """
    with decoding("its footer"):
        reasons = [(column.name, _reason(handle, column)) for column in schema]
    return {name: reason for name, reason in reasons if reason}


def rehearse(handle: ParquetHandle, schema: Sequence[KeyColumn]) -> None:
    """Read everything in the footer that queries will read later; see `Format.rehearse`.

    `schema` are the columns of the table. Raises Undecodable.
    """
    parquet_file.require_plain_parquet(handle.source)
    only_spark = spark_only_columns(handle, schema)
    parquet_rows.rehearse(handle, [column for column in schema if column.name not in only_spark])


def nested_marks(handle: ParquetHandle, schema: Sequence[KeyColumn]) -> list[str]:
    """Return the marks of the nested columns of a table.

    Marks say which parts of the columns Spark and Arrow read alike from this file (see `nested_types`). A build records
    the marks of each file. `schema` are all columns of the table.
    """
    with decoding("its footer"):
        nested = [column for column in schema if not is_simple(column)]
        return [mark for column in nested for mark in parquet_nested.marks(handle, column, _statistics_at_least)]


def bounds(handle: ParquetHandle, columns: Sequence[KeyColumn]) -> dict[str, Bounds]:
    """Return the bounds of columns in each row group, by column name.

    Bounds are the smallest and the largest value. Only integers, dates and timestamps have bounds; columns without
    certain bounds are left out. The bounds come from the statistics in the footer. For INT96, which has no statistics,
    the values are read.
    """
    with decoding("its footer"):
        pairs = [(column.name, _bounds(handle, column)) for column in columns]
    return {name: bounds for name, bounds in pairs if bounds is not None}


def _bounds(handle: ParquetHandle, column: KeyColumn) -> Bounds | None:
    """Return the bounds of a column in each row group.

    Return None if the column has no bounds in this file: only Spark reads the column, the file lacks it, or its type
    has no bounds. Row groups whose bounds are not certain are marked as unknown.
    """
    try:
        at = find(handle, column)
    except Undecodable:  # only Spark reads the column
        return None
    if at is None:
        return None
    leaf = handle.leaves[at[0]]
    kind = stored_kind(handle.metadata.schema.column(leaf))
    groups = range(handle.metadata.num_row_groups)
    if kind == "int96" and column.base == "timestamp":
        return Bounds.of([_read_bounds(handle, group, column) for group in groups])
    if column.base not in BOUNDED.get(kind, ()):
        return None
    floor = {"date": FIRST_DAY, "timestamp": FIRST_MICROSECOND, "timestamp_ntz": FIRST_MICROSECOND}.get(column.base)
    return Bounds.of([_stated_bounds(handle, group, leaf, floor) for group in groups])


def _stated_bounds(handle: ParquetHandle, group: int, leaf: int, floor: int | None) -> tuple[int, int, int] | None:
    """Return the bounds of a column in a row group, from statistics.

    The result is the tuple (number of NULLs, smallest value, largest value); None if the bounds are not certain.
    `group` is the position of the row group in the file, and `leaf` is the ordinal of the column in the file. Below
    `floor`, the same number may stand for different days in writers and readers (`known_bounds`), so the bounds are not
    certain if the smallest value is below `floor`. `floor` is None for types without such values.
    """
    chunk, rows = handle.metadata.row_group(group).column(leaf), handle.metadata.row_group(group).num_rows
    if chunk.physical_type != handle.metadata.schema.column(leaf).physical_type or chunk.num_values != rows:
        return None
    stats = chunk.statistics
    if stats is None or not stats.has_null_count:
        return None
    scale = 1000 if '"milliseconds"' in stats.logical_type.to_json() else 1
    low, high = (stats.min_raw * scale, stats.max_raw * scale) if stats.has_min_max else (None, None)
    return known_bounds(rows, stats.null_count, low, high, floor)


def _read_bounds(handle: ParquetHandle, group: int, column: KeyColumn) -> tuple[int, int, int] | None:
    """Return the bounds of a timestamp column in a row group, from the values.

    `group` is the position of the row group in the file. The result is the tuple (number of NULLs, smallest value,
    largest value); None if the bounds are not certain, or if only Spark reads the values.
    """
    try:
        values = key_columns(handle, group, [column])[column.name]
    except Undecodable:
        return None
    ends = pc.min_max(values.cast(pa.int64()))
    return known_bounds(len(values), values.null_count, ends["min"].as_py(), ends["max"].as_py(), FIRST_MICROSECOND)


def _reason(handle: ParquetHandle, column: KeyColumn) -> str:
    if not is_simple(column):
        return f"column {column.name!r} is nested or of a type without a key: {column.type}"
    try:
        at = find(handle, column)
    except Undecodable as error:
        return str(error)
    if at is None:
        return ""
    name, how = at
    if name in handle.dictionaries and handle.is_delta(name, range(handle.metadata.num_row_groups)):
        return f"column {column.name!r} is a dictionary for Arrow, but is not stored as one"
    if how.always_alike:
        return ""
    if how.narrowed:
        return f"column {column.name!r} may hold values that do not fit {column.type}"
    if not _statistics_at_least(handle, handle.leaves[name], how.floor):
        return f"column {column.name!r} may hold dates of a calendar that the file does not name"
    return ""


def _key(table: pa.Table, column: KeyColumn, at: tuple[str, Conversion] | None, rows: int) -> Values:
    if at is None:
        return nulls(column, rows)
    name, how = at
    values = converted(table.column(name), column)
    if how.floor is not None:
        require_at_least(values, how.floor, column.name)
    return as_keys(values, column.name)


def _statistics_at_least(handle: ParquetHandle, leaf: int, floor: int | None) -> bool:
    """Return whether the footer proves that no value is less than `floor`.

    `leaf` is the ordinal of the column in the file. The result is true if `floor` is None.
    """
    if floor is None:
        return True
    physical = handle.metadata.schema.column(leaf).physical_type
    for ordinal in range(handle.metadata.num_row_groups):
        chunk = handle.metadata.row_group(ordinal).column(leaf)
        if chunk.physical_type != physical:  # the footer is damaged: reading the statistics would end the process
            return False
        stats = chunk.statistics
        if stats is None or stats.physical_type == "INT96":
            return False
        scale = 1000 if '"milliseconds"' in stats.logical_type.to_json() else 1
        empty = stats.has_null_count and stats.null_count == chunk.num_values
        if not empty and not (stats.has_min_max and stats.min_raw * scale >= floor):
            return False
    return True
