"""Read the keys and the aggregated values of an index from a base file.

Columns are read from the file. Before the tasks run, Spark computes the expressions, and writes a scratch file for each
base file, with the rows in the same order (`building/computing`). The computed values cannot be used if the base file
has changed since they were computed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column, KeyExpression
from hive_bitmap.core.formats.blocks import Blocks
from hive_bitmap.core.formats.calendar_checks import as_keys
from hive_bitmap.core.formats.key_values import KeyColumn, converted
from hive_bitmap.core.index import deletion
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.indexing.staged_values import FINGERPRINTS, ReadOptions, part_rows, read_list
from hive_bitmap.errors import FileChanged, Undecodable

log = logging.getLogger(__name__)
LIST = deletion.COMPUTED_LIST  # file in the staging folder, with schema COMPUTED: keys
MEASURED_LIST = deletion.MEASURED_LIST  # file in the staging folder, with schema COMPUTED: values to aggregate
COMPUTED = pa.schema(
    [
        *FINGERPRINTS,
        ("part", pa.string()),  # a scratch file in the same folder; empty for a file without rows
        ("reason", pa.string()),  # why the columns could not be read; empty if they were
        ("failed", pa.list_(pa.string())),  # the names of the expressions that fail for at least one row
        ("seconds", pa.float64()),  # time that tasks took for the file
    ]
)


@dataclass(frozen=True)
class KeyReader:
    """Reads the keys and the aggregated values of an index from an open base file.

    `handle` is the open file, and `parts` are the scratch files with the keys that are expressions. `measured` are the
    aggregated expressions that could be computed for all rows, and `measured_parts` the scratch files with their
    values. Methods raise Undecodable.
    """

    definition: Definition
    options: ReadOptions
    handle: Any
    blocks: Blocks
    parts: tuple[pq.ParquetFile, ...] = ()
    measured: tuple[KeyExpression, ...] = ()
    measured_parts: tuple[pq.ParquetFile, ...] = ()

    @classmethod
    def of(cls, definition: Definition, options: ReadOptions, path: str, handle: Any, blocks: Blocks) -> KeyReader:
        """Return the reader of a base file.

        The scratch files are opened if `options.staging` is set. Raise Undecodable if Spark could not compute a key,
        and FileChanged if the base file has changed since Spark computed the keys or values.
        """
        parts: tuple[pq.ParquetFile, ...] = ()
        measured_parts: tuple[pq.ParquetFile, ...] = ()
        measured: tuple[KeyExpression, ...] = ()
        if definition.expressions and options.staging:
            parts = _parts(definition, options.staging, path)
            _require_rows(parts, blocks)
        if definition.aggregated_expressions and options.staging:
            measured, measured_parts = _measured(definition, options.staging, path)
            if measured:
                _require_rows(measured_parts, blocks)
        return cls(definition, options, handle, blocks, parts, measured, measured_parts)

    def block(self, number: int) -> pa.Table:
        """Return the keys of all rows of a block.

        `number` is the position of the block in the file. The keys have their names in the index table.
        """
        format, definition = self.options.file_format(), self.definition
        if definition.expressions and not self.options.staging:
            format.key_columns(self.handle, number, self.options.key_columns(definition.source_columns))
            raise Undecodable("its keys were not computed")
        plain = self.options.key_columns(definition.plain_columns)
        if not definition.expressions:
            return format.key_columns(self.handle, number, plain)
        first, count = int(self.blocks.first_rows()[number]), int(self.blocks.rows[number])
        read = part_rows(self.parts, first, count, [expression.name for expression in definition.expressions])
        keys = format.key_columns(self.handle, number, plain) if plain else None
        columns = [] if keys is None else list(keys.columns)
        for expression in definition.expressions:
            column = KeyColumn(expression.alias, expression.type)
            columns.append(as_keys(converted(read[expression.name], column), expression.sql))
        return pa.Table.from_arrays(columns, names=list(definition.column_names))

    def aggregated(self, number: int) -> dict[Column, pa.ChunkedArray]:
        """Read the aggregated values of all rows of a block.

        `number` is the position of the block in the file. The result has those of `Definition.measured_columns` that
        can be read and computed.
        """
        format, values = self.options.file_format(), {}
        columns = self.definition.aggregated_columns
        if not self.options.staging:  # to find files of which a column cannot be read without ending the process
            columns += tuple(c for expression in self.definition.aggregated_expressions for c in expression.columns)
        for column in columns:
            if column not in self.options.schema:
                continue
            try:
                read = format.key_columns(self.handle, number, self.options.key_columns([column]))
                values[column] = read.column(0)
            except Undecodable as e:
                log.info("column %s of block %d is not aggregated: %s", column.name, number, e)
        if self.measured:
            first, count = int(self.blocks.first_rows()[number]), int(self.blocks.rows[number])
            computed = part_rows(
                self.measured_parts, first, count, [expression.values_name for expression in self.measured]
            )
            for expression in self.measured:
                type = KeyColumn(expression.alias, expression.type)
                values[expression.stored] = converted(computed[expression.values_name], type)
        return values


def seconds_by_path(folder: str) -> dict[str, float]:
    """Return how long tasks computed keys, by path of the base file.

    The times are in seconds. `folder` is the staging folder with the computed keys.
    """
    return {path: values["seconds"] for path, (_, values) in read_list(f"{folder}/{LIST}").items()}


def _parts(definition: Definition, folder: str, path: str) -> tuple[pq.ParquetFile, ...]:
    """Return the scratch files with the keys of a file.

    Raise FileChanged, and Undecodable if a key could not be computed.
    """
    computed = _computed(f"{folder}/{LIST}", path)
    if computed["reason"]:
        raise Undecodable(computed["reason"])
    for expression in definition.expressions:
        if expression.name in computed["failed"]:
            raise Undecodable(f"{expression.sql} fails for a row")
    return _opened(computed, folder)


def _measured(
    definition: Definition, folder: str, path: str
) -> tuple[tuple[KeyExpression, ...], tuple[pq.ParquetFile, ...]]:
    """Return the computed expressions of a base file, and the scratch files.

    Only aggregated expressions are considered; the scratch files have their values. An expression is left out if it
    fails for a row, or if its columns could not be read. Raise FileChanged.
    """
    computed = _computed(f"{folder}/{MEASURED_LIST}", path)
    parts = _opened(computed, folder)
    if computed["reason"] or not parts:
        return (), ()
    names = {*parts[0].schema_arrow.names} - {*computed["failed"]}
    return tuple(each for each in definition.aggregated_expressions if each.values_name in names), parts


def _computed(list_path: str, path: str) -> Mapping[str, Any]:
    """Find a base file in a list of computed values, and return its row; raise FileChanged."""
    computed = read_list(list_path).get(path)
    if computed is None or not computed[0].confirmed():
        raise FileChanged("it was added or changed while Spark computed its keys")
    return computed[1]


def _opened(computed: Mapping[str, Any], folder: str) -> tuple[pq.ParquetFile, ...]:
    return (pq.ParquetFile(stores.open_input(f"{folder}/{computed['part']}")),) if computed["part"] else ()


def _require_rows(parts: tuple[pq.ParquetFile, ...], blocks: Blocks) -> None:
    """Raise FileChanged unless the scratch files have as many rows as the base file."""
    if sum(part.metadata.num_rows for part in parts) != int(blocks.rows.sum()):
        raise FileChanged("it changed while Spark computed its keys")
