"""Values that Spark has read of files that only it reads, in scratch files, as a `Format`: tasks see no difference.

`staging` writes them. A file that is not what it was when Spark began to read it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap import stores
from hive_bitmap.errors import FileChanged, Undecodable
from hive_bitmap.formats import FORMATS, LAYOUTS, Format, units
from hive_bitmap.formats.blocks import Blocks
from hive_bitmap.formats.calendar_checks import as_keys
from hive_bitmap.formats.engine import EngineFormat, EngineHandle
from hive_bitmap.formats.key_values import KeyColumn, converted
from hive_bitmap.index.fingerprint import Fingerprint

LIST = "staged.parquet"
STAGED = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime_ms", pa.int64()),
        ("etag", pa.string()),
        ("tail_crc32", pa.int64()),
        ("parts", pa.list_(pa.string())),  # files beside this one, in the order of their rows
    ]
)


@dataclass(frozen=True)
class StagedHandle(EngineHandle):
    """An open file: its blocks, and the scratch files that hold the values of its rows."""

    found: Blocks
    parts: tuple[pq.ParquetFile, ...]

    @cached_property
    def rows(self) -> int:
        """How many rows Spark has read."""
        return sum(part.metadata.num_rows for part in self.parts)

    def read(self, first: int, count: int, names: list[str]) -> pa.Table:
        """These columns of `count` rows."""
        pieces, at = [], 0
        for part in self.parts:
            for group in range(part.num_row_groups):
                end = at + part.metadata.row_group(group).num_rows
                low, high = max(first, at), min(first + count, end)
                if low < high:
                    read = part.read_row_group(group, columns=names, use_threads=False)
                    pieces.append(read.slice(low - at, high - low))
                at = end
        return pa.concat_tables(pieces)


@dataclass(frozen=True)
class StagedFormat(EngineFormat):
    """A format that only Spark reads, with the values that it has read; without a folder there are none."""

    folder: str

    def open_file(self, path: str) -> StagedHandle:
        """Raises FileNotFoundError, Undecodable, and FileChanged for one that Spark has not read as it is now."""
        stores.status(path)
        known = _staged(self.folder).get(path)
        if known is None or not known[0].confirmed():
            raise FileChanged("it came or changed while Spark read the table")
        parts = tuple(pq.ParquetFile(stores.open_input(f"{self.folder}/{name}")) for name in known[1])
        handle = StagedHandle(path, _blocks(self.name, known[0]), parts)
        records = int(handle.found.rows.sum())
        if handle.rows != records:
            raise Undecodable(f"Spark reads {handle.rows:,} rows of its {records:,} records")
        return handle

    def blocks(self, handle: EngineHandle) -> Blocks:
        """All blocks of the file."""
        assert isinstance(handle, StagedHandle)
        return handle.found

    def key_columns(self, handle: EngineHandle, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """One block's columns as keys, as Spark has read them; raises Undecodable for strings that are not UTF-8."""
        assert isinstance(handle, StagedHandle)
        first, count = int(handle.found.first_rows()[block]), int(handle.found.rows[block])
        read = handle.read(first, count, [column.name for column in columns])
        keys = [as_keys(converted(read[column.name], column), column.name) for column in columns]
        return pa.Table.from_arrays(keys, names=[column.name for column in columns])


def reader(format: str, staging: str) -> Format:
    """The format of that name; `staging` is the folder of values that Spark has read, where only it reads them."""
    return StagedFormat(format, LAYOUTS[format], staging) if format in LAYOUTS else FORMATS[format]


@lru_cache(maxsize=8)
def _staged(folder: str) -> dict[str, tuple[Fingerprint, list[str]]]:
    if not folder:
        return {}
    with stores.open_input(f"{folder}/{LIST}") as source:
        rows = pq.ParquetFile(source).read(use_threads=False).to_pylist()
    return {row["path"]: (Fingerprint(*list(row.values())[:5]), row["parts"]) for row in rows}


@lru_cache(maxsize=64)
def _blocks(format: str, file: Fingerprint) -> Blocks:
    """The blocks of a file that has this fingerprint."""
    return units.blocks(LAYOUTS[format], file.path)
