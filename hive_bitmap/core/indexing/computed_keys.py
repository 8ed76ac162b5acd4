"""Read the keys of an index from a base file.

A key that is a column is read from the file. Before the tasks run, Spark computes the keys that are expressions, and
writes a scratch file for each base file, with the rows in the same order (`building/computing`). The computed values
cannot be used if the base file has changed since they were computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.formats.blocks import Blocks
from hive_bitmap.core.formats.calendar_checks import as_keys
from hive_bitmap.core.formats.key_values import KeyColumn, converted
from hive_bitmap.core.index import deletion
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.indexing.staged_values import FINGERPRINTS, ReadOptions, part_rows, read_list
from hive_bitmap.errors import FileChanged, Undecodable

LIST = deletion.COMPUTED_LIST  # file in the staging folder, with schema COMPUTED
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
    """Reads the keys of an index from an open base file.

    `handle` is the open file, and `parts` are the scratch files with the keys that are expressions. Methods raise
    Undecodable.
    """

    definition: Definition
    options: ReadOptions
    handle: Any
    blocks: Blocks
    parts: tuple[pq.ParquetFile, ...] = ()

    @classmethod
    def of(cls, definition: Definition, options: ReadOptions, path: str, handle: Any, blocks: Blocks) -> KeyReader:
        """Return the reader of a file.

        Raise Undecodable or FileChanged if the keys of the file were not computed.
        """
        if not definition.expressions or not options.staging:
            return cls(definition, options, handle, blocks)
        parts = _parts(definition, options.staging, path)
        rows = sum(part.metadata.num_rows for part in parts)
        if rows != int(blocks.rows.sum()):
            raise FileChanged("it changed while Spark computed its keys")
        return cls(definition, options, handle, blocks, parts)

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


def seconds_by_path(folder: str) -> dict[str, float]:
    """Return the seconds that tasks took to compute keys, by file.

    The files are base files, given by path. `folder` is the staging folder with the computed keys.
    """
    return {path: values["seconds"] for path, (_, values) in read_list(f"{folder}/{LIST}").items()}


def _parts(definition: Definition, folder: str, path: str) -> tuple[pq.ParquetFile, ...]:
    computed = read_list(f"{folder}/{LIST}").get(path)
    if computed is None or not computed[0].confirmed():
        raise FileChanged("it was added or changed while Spark computed its keys")
    values = computed[1]
    if values["reason"]:
        raise Undecodable(values["reason"])
    for expression in definition.expressions:
        if expression.name in values["failed"]:
            raise Undecodable(f"{expression.sql} fails for a row")
    return (pq.ParquetFile(stores.open_input(f"{folder}/{values['part']}")),) if values["part"] else ()
