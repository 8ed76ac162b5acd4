"""Open Parquet files, and find columns by Spark's rules.

They are found by name, ignoring case. If the table maps its columns by id, they are found by the id that the file has
for each. A missing column is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.formats import parquet_footer
from hive_bitmap.core.formats.key_values import KeyColumn, decoding
from hive_bitmap.core.formats.parquet_types import Conversion, conversion_for
from hive_bitmap.errors import Undecodable

FIELD_ID = b"PARQUET:field_id"  # the key under which Arrow keeps a column's id


@dataclass(frozen=True, kw_only=True)
class ParquetHandle:
    """An open file.

    It has the path, the content, the footer and the column names. `dictionaries` are the columns that Arrow reads as
    dictionaries because the Arrow schema in the file says so.
    """

    path: str
    source: pa.NativeFile
    metadata: pq.FileMetaData
    names: list[str]
    dictionaries: frozenset[str]

    @cached_property
    def fields(self) -> dict[str, list[str]]:
        """The top-level names of the file, by name in lower case."""
        by_lower_name: dict[str, list[str]] = {}
        for name in self.names:
            by_lower_name.setdefault(name.lower(), []).append(name)
        return by_lower_name

    @cached_property
    def leaves(self) -> dict[str, int]:
        """The ordinals of the simple columns, by name.

        They are neither nested nor repeated.
        """
        schema = self.metadata.schema
        columns = ((schema.column(ordinal), ordinal) for ordinal in range(len(schema)))
        return {leaf.name: at for leaf, at in columns if leaf.path == leaf.name and not leaf.max_repetition_level}

    @cached_property
    def field_ids(self) -> dict[str, int | None]:
        """The ids of the top-level columns by name.

        None stands for a missing id.
        """
        with decoding("its footer"):
            schema = self.metadata.schema.to_arrow_schema()
        ids = ((field.name, (field.metadata or {}).get(FIELD_ID)) for field in schema)
        return {name: None if id is None else int(id) for name, id in ids}

    def is_delta(self, name: str, blocks: Iterable[int]) -> bool:
        """Return whether a column has DELTA-encoded pages.

        They are looked for in these row groups. Arrow does not read such pages as dictionaries.
        """
        chunks = (self.metadata.row_group(block).column(self.leaves[name]) for block in blocks)
        return any(encoding.startswith("DELTA") for chunk in chunks for encoding in chunk.encodings)

    def reader(self, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        """Return a reader of the file.

        It reads the named string columns as dictionaries, and INT96 in microseconds. In nanoseconds, pyarrow's default,
        the year 9999 would overflow to 1816.
        """
        return pq.ParquetFile(
            self.source,
            metadata=self.metadata,
            read_dictionary=list(dictionaries),
            pre_buffer=not stores.is_local(self.path),  # remote stores are fastest with few large requests
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
        )


def open_file(path: str) -> ParquetHandle:
    """Open a file and read its footer.

    Raises FileNotFoundError, or Undecodable for a damaged or encrypted file.
    """
    source = stores.open_input(path)
    with decoding("its footer"):
        length = parquet_footer.parquet_footer_length(source)
        file = pq.ParquetFile(source)
        if file.metadata.serialized_size != length:  # a signature follows, as in every file with an encrypted column
            parquet_footer.require_plain_parquet(source)
        schema = file.schema_arrow
        dictionaries = frozenset(field.name for field in schema if pa.types.is_dictionary(field.type))
        return ParquetHandle(
            path=path, source=source, metadata=file.metadata, names=schema.names, dictionaries=dictionaries
        )


def find(handle: ParquetHandle, column: KeyColumn) -> tuple[str, Conversion] | None:
    """Return a column's name in the file and how to read it.

    Returns None if the file lacks the column. Raises Undecodable.
    """
    names = _names(handle, column)
    if not names:
        return None
    if len(names) > 1:
        raise Undecodable(f"column {column.name!r} is ambiguous: the file has {', '.join(names)}")
    if names[0] not in handle.leaves:
        raise Undecodable(f"column {column.name!r} is nested in the file")
    leaf = handle.metadata.schema.column(handle.leaves[names[0]])
    return names[0], conversion_for(leaf, column, handle.metadata.metadata)


def _names(handle: ParquetHandle, column: KeyColumn) -> list[str]:
    """Return the top-level columns that may be this column.

    Raises Undecodable if ids cannot decide it.
    """
    if column.field_id is None:
        return handle.fields.get((column.file_name or column.name).lower(), [])
    if None in handle.field_ids.values() or len(handle.field_ids) < len(handle.names):
        raise Undecodable(f"column {column.name!r} has an id in the table, and columns of the file have none")
    return [name for name, id in handle.field_ids.items() if id == column.field_id]
