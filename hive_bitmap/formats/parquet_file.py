"""An open Parquet file, and its columns found as Spark finds them: by name, without case; a missing one is NULL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap import stores
from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.key_values import KeyColumn, decoding
from hive_bitmap.formats.parquet_types import Conversion, reading


@dataclass(frozen=True)
class ParquetHandle:
    """An open file: its path, its bytes and its footer; `dictionaries` are the columns that Arrow will make such of."""

    path: str
    source: pa.NativeFile
    metadata: pq.FileMetaData
    names: list[str]
    dictionaries: frozenset[str]

    @cached_property
    def fields(self) -> dict[str, list[str]]:
        """The top-level names of the file by their lower case."""
        found: dict[str, list[str]] = {}
        for name in self.names:
            found.setdefault(name.lower(), []).append(name)
        return found

    @cached_property
    def leaves(self) -> dict[str, int]:
        """The ordinals of the columns that are neither nested nor repeated, by name."""
        schema = self.metadata.schema
        columns = ((schema.column(ordinal), ordinal) for ordinal in range(len(schema)))
        return {leaf.name: at for leaf, at in columns if leaf.path == leaf.name and not leaf.max_repetition_level}

    def is_delta(self, name: str, blocks: Iterable[int]) -> bool:
        """Whether some pages of a column in these row groups are DELTA-encoded, which Arrow makes no dictionary of."""
        chunks = (self.metadata.row_group(block).column(self.leaves[name]) for block in blocks)
        return any(encoding.startswith("DELTA") for chunk in chunks for encoding in chunk.encodings)

    def reader(self, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        """A reader of the file that shows the named string columns as dictionaries, and INT96 in microseconds.

        (In nanoseconds, pyarrow's default, the year 9999 would wrap around to 1816.)
        """
        return pq.ParquetFile(
            self.source,
            metadata=self.metadata,
            read_dictionary=list(dictionaries),
            pre_buffer=not stores.is_local(self.path),  # far from here few large requests cost least
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
        )


def open_file(path: str) -> ParquetHandle:
    """Open a file and read its footer; raises FileNotFoundError, Undecodable (damaged, encrypted)."""
    source = stores.open_input(path)
    with decoding("footer"):
        file = pq.ParquetFile(source)
        schema = file.schema_arrow
        dictionaries = frozenset(field.name for field in schema if pa.types.is_dictionary(field.type))
        return ParquetHandle(path, source, file.metadata, schema.names, dictionaries)


def find(handle: ParquetHandle, column: KeyColumn) -> tuple[str, Conversion] | None:
    """The file's name for the column and how to read it, None where the file lacks it; raises Undecodable."""
    names = handle.fields.get(column.name.lower(), [])
    if not names:
        return None
    if len(names) > 1:
        raise Undecodable(f"column {column.name!r} is ambiguous: the file has {', '.join(names)}")
    if names[0] not in handle.leaves:
        raise Undecodable(f"column {column.name!r} is nested in the file")
    leaf = handle.metadata.schema.column(handle.leaves[names[0]])
    return names[0], reading(leaf, column, handle.metadata.metadata)
