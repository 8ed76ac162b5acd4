"""Read base files in tasks, including files that only Spark can read.

For files that only Spark can read, Spark writes the values to scratch files before the tasks run (`staging`). Tasks
read these staged values through StagedFormat. The staged values cannot be used if the base file has changed since Spark
began to read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats import FORMATS, LAYOUTS, Format, blocks
from hive_bitmap.core.formats.blocks import Blocks
from hive_bitmap.core.formats.calendar_checks import as_keys
from hive_bitmap.core.formats.engine import EngineFormat, EngineHandle
from hive_bitmap.core.formats.key_values import KeyColumn, converted
from hive_bitmap.core.index import deletion
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.shard import key_columns
from hive_bitmap.errors import FileChanged, Undecodable

LIST = deletion.STAGED_LIST  # file in the staging folder, with schema STAGED: the base files that Spark has read
# The first columns of a list of base files: their fingerprints.
FINGERPRINTS = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime_ms", pa.int64()),
        ("etag", pa.string()),
        ("tail_crc32", pa.int64()),
    ]
)
# `parts` are scratch files in the same folder, in row order.
STAGED = FINGERPRINTS.append(pa.field("parts", pa.list_(pa.string())))


@dataclass(frozen=True)
class StagedHandle(EngineHandle):
    """An open file with staged values.

    `parts` are the scratch files with the values of the file's rows.
    """

    blocks: Blocks
    parts: tuple[pq.ParquetFile, ...]

    @cached_property
    def rows(self) -> int:
        """The number of rows that Spark has read."""
        return sum(part.metadata.num_rows for part in self.parts)

    def read(self, first: int, count: int, names: list[str]) -> pa.Table:
        """Read the columns `names` of `count` rows, from row `first` of the file on."""
        return part_rows(self.parts, first, count, names)


@dataclass(frozen=True)
class StagedFormat(EngineFormat):
    """A format that only Spark reads, with the values that Spark has staged.

    `folder` has the staged values; "" means that there are no staged values.
    """

    folder: str

    def open_file(self, path: str) -> StagedHandle:
        """Open a base file and its staged values.

        Raise FileNotFoundError if the base file is missing. Raise FileChanged if Spark has not read the current state
        of the file. Raise Undecodable if the blocks cannot be found, or if Spark has read another number of rows than
        they have.
        """
        stores.status(path)
        staged = read_list(f"{self.folder}/{LIST}").get(path) if self.folder else None
        if staged is None or not staged[0].confirmed():
            raise FileChanged("it was added or changed while Spark read the table")
        taken, values = staged
        parts = tuple(pq.ParquetFile(stores.open_input(f"{self.folder}/{name}")) for name in values["parts"])
        handle = StagedHandle(path, _blocks(self.name, taken), parts)
        records = int(handle.blocks.rows.sum())
        if handle.rows != records:
            raise Undecodable(f"Spark reads {handle.rows:,} rows of its {records:,} records")
        return handle

    def blocks(self, handle: EngineHandle) -> Blocks:
        """Return all blocks of the file."""
        assert isinstance(handle, StagedHandle)
        return handle.blocks

    def key_columns(self, handle: EngineHandle, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """Return columns of one block as keys.

        Raise Undecodable for strings that are not UTF-8.
        """
        assert isinstance(handle, StagedHandle)
        first, count = int(handle.blocks.first_rows()[block]), int(handle.blocks.rows[block])
        read = handle.read(first, count, [column.name for column in columns])
        keys = [as_keys(converted(read[column.name], column), column.name) for column in columns]
        return pa.Table.from_arrays(keys, names=[column.name for column in columns])


@dataclass(frozen=True)
class ReadOptions:
    """How tasks read the base files of a table.

    `format` is the name of the files' format. `schema` has all data columns of the table. `time_zone` is the time zone
    of Spark's JVM; empty if it is unknown. `staging` is the folder of `staging.staged`, with staged values, computed
    keys or both; empty if there are none.
    """

    format: str
    schema: tuple[Column, ...]
    time_zone: str
    staging: str = ""

    def file_format(self) -> Format:
        """Return the format of the files or of their staged values.

        Staged values are read if only Spark reads the files.
        """
        if self.format in LAYOUTS:
            return StagedFormat(self.format, LAYOUTS[self.format], self.staging)
        return FORMATS[self.format]

    def key_columns(self, columns: Iterable[Column]) -> list[KeyColumn]:
        """Convert columns of the table to the KeyColumns that `Format` takes."""
        return key_columns(columns, self.schema, self.time_zone)


def part_rows(parts: Sequence[pq.ParquetFile], first: int, count: int, names: list[str]) -> pa.Table:
    """Read columns of `count` rows of scratch files.

    `first` is the position of the first of these rows among the rows of all `parts`.
    """
    pieces, start = [], 0
    for part in parts:
        for group in range(part.num_row_groups):
            end = start + part.metadata.row_group(group).num_rows
            low, high = max(first, start), min(first + count, end)
            if low < high:
                read = part.read_row_group(group, columns=names, use_threads=False)
                pieces.append(read.slice(low - start, high - low))
            start = end
    return pa.concat_tables(pieces)


def write_list(path: str, schema: pa.Schema, files: Iterable[tuple[Fingerprint, Mapping[str, Any]]]) -> None:
    """Write a list of base files for tasks to read by `read_list`.

    `schema` has the FINGERPRINTS, then further columns. `files` has the fingerprint of each base file and its values of
    the further columns.
    """
    table = pa.Table.from_pylist([asdict(taken) | dict(values) for taken, values in files], schema)
    with stores.open_output(path, private=True) as sink:
        pq.write_table(table, sink)


@lru_cache(maxsize=16)
def read_list(path: str) -> Mapping[str, tuple[Fingerprint, Mapping[str, Any]]]:
    """Read a list of base files.

    Return the fingerprint and the row of each base file, by path.
    """
    with stores.open_input(path) as source:
        rows = pq.ParquetFile(source).read(use_threads=False).to_pylist()
    return {row["path"]: (Fingerprint.of(row), row) for row in rows}


@lru_cache(maxsize=64)
def _blocks(format: str, file: Fingerprint) -> Blocks:
    """Return the blocks of a file, cached until its fingerprint changes."""
    return blocks.blocks(LAYOUTS[format], file.path)
