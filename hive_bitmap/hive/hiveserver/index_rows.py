"""Fetch index rows from a server as Arrow record batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index.definition import BUCKET, OFFSET, OFFSETS, Definition
from hive_bitmap.core.predicates.nodes import Predicate
from hive_bitmap.core.table_info import quote
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.hiveql import condition

COMPARED = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "varchar", "date")


def fetched(
    server: Server, definition: Definition, column: str, node: Predicate, within: str
) -> Iterator[pa.RecordBatch]:
    """Yield the index rows with a matching key, in batches.

    The order is arbitrary, and rows whose key only may match are included. A batch has a row for each key and block,
    with these columns: `key`, in the Arrow type of the column; `bucket` (string); `offset` (int64); and the bitmaps in
    `definition.bitmap_fields`, none for COMPACT. A key of a type that is not in COMPARED is only tested for NULL: its
    column is boolean, TRUE for any other key. `within` is a condition in HiveQL that limits the rows further; empty for
    none. Raises ServerError, and NotFound for a column that the index does not have.
    """
    key = find(definition.columns, column, f"index {definition.name}")
    names = [_key(key), *(quote(field.name) for field in (BUCKET, *_stored(definition)))]
    conditions = [part for part in (condition(node, {column: key.type}), within) if part]
    where = f" WHERE ({') AND ('.join(conditions)})" if conditions else ""
    for rows in server.batches(f"SELECT {', '.join(names)} FROM {definition.sql_name}{where}"):
        yield _batch(definition, key, rows)


def _stored(definition: Definition) -> tuple[pa.Field, ...]:
    return (OFFSET, *definition.bitmap_fields) if definition.has_bitmaps else (OFFSETS,)


def _key(key: Column) -> str:
    return quote(key.name) if _is_compared(key) else f"IF({quote(key.name)} IS NULL, NULL, TRUE)"


def _is_compared(key: Column) -> bool:
    return key.type.partition("(")[0] in COMPARED


def _batch(definition: Definition, key: Column, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    keys, buckets, *stored = zip(*rows, strict=True)
    columns = {"key": _keys(key, keys), "bucket": pa.array(buckets, pa.string())}
    fields = _stored(definition)
    arrays = {field.name: _values(field, values) for field, values in zip(fields, stored, strict=True)}
    if definition.has_bitmaps:
        return pa.RecordBatch.from_pydict({**columns, "offset": arrays.pop(OFFSET.name), **arrays})
    offsets = arrays[OFFSETS.name]
    parents = pc.list_parent_indices(offsets)
    expanded = {name: column.take(parents) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict({**expanded, "offset": pc.list_flatten(offsets)})


def _keys(key: Column, values: Sequence[Any]) -> pa.Array:
    if not _is_compared(key):
        return pa.array(values, pa.bool_())
    if key.type == "date":
        values = [None if value is None else date.fromisoformat(value) for value in values]
    return pa.array(values, arrow_type(KeyColumn(key.name, key.type)))


def _values(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Return values of a stored column as an Arrow array.

    Servers send arrays as text like `[8,9]`.
    """
    return pa.array(json.loads(f"[{','.join(values)}]") if pa.types.is_list(field.type) else values, field.type)
