"""Read selected rows of a Parquet file, with the faster of two readers for each row group.

If few rows of a row group are selected, DuckDB reads them by a semi-join on row numbers, and decodes only the pages
that hold them. Otherwise pyarrow reads the whole row group, and the rows are taken from it. Measured with seven columns
on one thread, DuckDB against pyarrow: 0.10 s against 0.20 s for 1 % of the rows, 0.36 s against 0.24 s for half of the
rows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type, converted, decoding, nulls
from hive_bitmap.core.formats.parquet_file import ParquetHandle, find, open_file
from hive_bitmap.errors import FileChanged

Rows = npt.NDArray[np.int64]
Wanted = tuple[int, Rows | None]

_SPARSE = 0.2  # up to this fraction of selected rows DuckDB is used
_BATCH_ROWS = 65_536
_GLOB = frozenset("*?[]{}")
_ROW_NUMBER = "file_row_number"
_SEMI_JOIN = f"""
    SELECT {{columns}} FROM read_parquet(?, file_row_number=true, hive_partitioning=false) AS file
    SEMI JOIN wanted ON file.{_ROW_NUMBER} = wanted.{_ROW_NUMBER} ORDER BY file.{_ROW_NUMBER}"""


@dataclass(frozen=True)
class _Output:
    """The columns to return, and the name of each in the file, "" if the file lacks it."""

    columns: tuple[KeyColumn, ...]
    stored: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return sorted(set(self.stored) - {""})

    def batch(self, read: pa.Table | pa.RecordBatch, rows: int) -> pa.RecordBatch:
        """Return the output columns, of `rows` rows, from the stored columns that were read."""
        arrays = [
            converted(read.column(name), column) if name else nulls(column, rows)
            for column, name in zip(self.columns, self.stored, strict=True)
        ]
        flat = [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays]
        return pa.RecordBatch.from_arrays(flat, schema=pa.schema([(c.name, arrow_type(c)) for c in self.columns]))


def read_rows(path: str, columns: Sequence[KeyColumn], selection: Sequence[Wanted]) -> Iterator[pa.RecordBatch]:
    """Yield the selected rows in file order, with the Arrow types of `key_values.arrow_type`.

    `columns` must be columns that `spark_only_columns` does not return. `selection` has pairs of the number of a block,
    ascending, and the numbers of its selected rows, 0-based inside the block and ascending, or None for all rows.
    Raises FileNotFoundError, Undecodable or FileChanged when the first or a later batch is requested.
    """
    handle = open_file(path)
    with handle.source:
        found = [find(handle, column) for column in columns]
        output = _Output(tuple(columns), tuple(at[0] if at else "" for at in found))
        counts = [handle.metadata.row_group(block).num_rows for block, _ in selection]
        direct = _duckdb_can(handle)
        sparse = [
            direct and rows is not None and len(rows) <= _SPARSE * count
            for (_, rows), count in zip(selection, counts, strict=True)
        ]
        for is_sparse, part in itertools.groupby(zip(selection, sparse, strict=True), key=lambda pair: pair[1]):
            wanted = [pair[0] for pair in part]
            yield from _by_duckdb(handle, output, wanted) if is_sparse else _by_arrow(handle, output, wanted)


def _duckdb_can(handle: ParquetHandle) -> bool:
    """Return whether DuckDB reads exactly this file, with its columns under their names and in their stored types.

    DuckDB takes paths as glob patterns, renames columns whose names differ in case only, and converts GeoParquet
    columns to its geometry type.
    """
    return (
        stores.is_local(handle.path)
        and not _GLOB.intersection(handle.path)
        and len(handle.fields) == len(handle.names)
        and _ROW_NUMBER not in handle.fields
        and b"geo" not in (handle.metadata.metadata or {})
    )


def _by_duckdb(handle: ParquetHandle, output: _Output, selection: Sequence[Wanted]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as DuckDB reads them.

    What DuckDB refuses, such as strings that are not UTF-8, pyarrow reads as Spark does, or raises an error that says
    what is wrong.
    """
    first = np.cumsum([0, *(handle.metadata.row_group(g).num_rows for g in range(handle.metadata.num_row_groups))])
    for some in _portions(selection):
        numbers = np.concatenate([first[block] + rows for block, rows in some if rows is not None])
        try:
            read = _semi_join(stores.local_path(handle.path), output.names, numbers)
        except duckdb.Error:
            yield from _by_arrow(handle, output, some)
            continue
        if len(read) != len(numbers):
            raise FileChanged(f"{handle.path} has lost rows while it was read")
        if len(read):
            yield output.batch(read, len(read))


def _portions(selection: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """Group consecutive blocks that have about _BATCH_ROWS selected rows together."""
    ends = np.cumsum([0 if rows is None else len(rows) for _, rows in selection])
    for _, some in itertools.groupby(zip(ends // _BATCH_ROWS, selection, strict=True), key=lambda pair: pair[0]):
        yield [pair[1] for pair in some]


def _semi_join(path: str, names: Sequence[str], numbers: Rows) -> pa.Table:
    listed = ", ".join(f"file.{_quoted(name)}" for name in names) or "1"
    with _database().cursor() as connection:
        connection.register("wanted", pa.table({_ROW_NUMBER: numbers}))
        return connection.sql(_SEMI_JOIN.format(columns=listed), params=[path]).to_arrow_table()


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the DuckDB database of this process, since opening one takes 12 ms. It caches no files."""
    options: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "enable_external_file_cache": False}
    database = duckdb.connect(":memory:", config=options)
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


def _by_arrow(handle: ParquetHandle, output: _Output, selection: Sequence[Wanted]) -> Iterator[pa.RecordBatch]:
    file = handle.reader()
    for block, rows in selection:
        start = 0
        with decoding(f"block {block}"):
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[block], columns=output.names, use_threads=False):
                end = start + batch.num_rows
                taken = batch if rows is None else _taken(batch, _between(rows, start, end))
                if taken.num_rows:
                    yield output.batch(taken, taken.num_rows)
                start = end


def _taken(batch: pa.RecordBatch, rows: Rows) -> pa.RecordBatch:
    """Return these rows of a batch. Arrow's `take` does not support view types, so these are cast first."""
    plain = [_without_view(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(plain, names=batch.schema.names).take(pa.array(rows))


def _without_view(column: pa.Array) -> pa.Array:
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _between(rows: Rows, start: int, end: int) -> Rows:
    """Return the rows from `start` to before `end`, counted from `start`."""
    low, high = np.searchsorted(rows, (start, end))
    return rows[low:high] - start
