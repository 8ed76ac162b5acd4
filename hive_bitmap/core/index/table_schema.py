"""Arrow schemas of index tables and keys, and names of shards."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index import generation, shard
from hive_bitmap.core.index.definition import BUCKET, OFFSET, OFFSETS, Definition, value_columns


def row_schema(definition: Definition) -> pa.Schema:
    """Return the schema of index rows.

    There is one row for each key and block. The columns are the keys, `_bucketname`, `_offset`, the bitmaps and the
    aggregates. COMPACT has no bitmaps. The shards of COMPACT have `compact_schema` instead.
    """
    fields = (*definition.bitmap_fields, *definition.aggregate_fields)
    return pa.schema([*key_fields(definition), BUCKET, OFFSET, *fields])


def built_schema(definition: Definition) -> pa.Schema:
    """Return `row_schema` with the cardinality of each bitmap as the last column.

    See `shard.CARDINALITY`.
    """
    return row_schema(definition).append(shard.CARDINALITY)


def compact_schema(definition: Definition) -> pa.Schema:
    """Return the schema of a COMPACT shard.

    A COMPACT shard has one row for each key and file. The columns are the keys, `_bucketname` and `_offsets`.
    """
    return pa.schema([*key_fields(definition), BUCKET, OFFSETS])


def key_fields(definition: Definition) -> list[pa.Field]:
    """Return the indexed columns as Arrow fields."""
    return [pa.field(c.name, arrow_type(KeyColumn(c.name, c.type))) for c in definition.columns]


def value_fields(definition: Definition) -> list[pa.Field]:
    """Return the last columns of a shard, which store the partition of a base file."""
    return [pa.field(c.name, arrow_type(KeyColumn(c.name, c.type))) for c in value_columns(definition)]


def shard_name(folder: str) -> str:
    """Return a name for a new shard that no other task attempt uses.

    The shard will be in `folder`. If `folder` is a generation, the name begins with the token of the build. `deletion`
    recognises the shards of a build by this token.
    """
    token = generation.build_token(folder) if generation.is_generation(folder) else ""
    return f"part-{(token + uuid.uuid4().hex)[:32]}.parquet"


def key_columns(columns: Iterable[Column], schema: Sequence[Column], time_zone: str) -> list[KeyColumn]:
    """Return columns of a base table in the form that `Format` takes.

    `schema` are all data columns of the table; a KeyColumn has its position among them. `time_zone` is the time zone of
    Spark's JVM, "" if it is unknown.
    """
    positions = {column.name: position for position, column in enumerate(schema)}
    return [
        KeyColumn(column.name, column.type, time_zone, positions[column.name], column.file_name, column.field_id)
        for column in columns
    ]
