"""The columns of an index table: its keys, the rows of a build before they are sorted, and a shard's name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa

from hive_bitmap.columns import Column
from hive_bitmap.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.index import shard
from hive_bitmap.index.definition import BUCKET, OFFSET, Definition


def row_schema(definition: Definition) -> pa.Schema:
    """The columns of an index table before they are compacted: keys, bucket, offset, bitmaps."""
    return pa.schema([*key_fields(definition), BUCKET, OFFSET, *definition.bitmap_fields])


def built_schema(definition: Definition) -> pa.Schema:
    """The columns of `row_schema`, and the cardinality of each bitmap."""
    return row_schema(definition).append(shard.CARDINALITY)


def key_fields(definition: Definition) -> list[pa.Field]:
    """The indexed columns with the Arrow types that carry them."""
    return [pa.field(c.name, arrow_type(KeyColumn(c.name, c.type))) for c in definition.columns]


def shard_name() -> str:
    """A file name that no other attempt of any task has."""
    return f"part-{uuid.uuid4().hex}.parquet"


def key_columns(columns: Iterable[Column], schema: Sequence[Column], time_zone: str) -> list[KeyColumn]:
    """Columns of the base table, whose data columns are `schema`, as its files are asked for them."""
    place = {column.name: position for position, column in enumerate(schema)}
    return [KeyColumn(column.name, column.type, time_zone, place[column.name]) for column in columns]
