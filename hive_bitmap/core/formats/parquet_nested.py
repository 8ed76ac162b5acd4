"""Find and convert the nested columns of Parquet files.

Only one layout of arrays and maps is read: the layout with the names that the format's specification prescribes (or the
name `item`, which Arrow wrote). Older writers used other layouts, and each reader has its own rules for them:
https://github.com/apache/parquet-format/blob/apache-parquet-format-2.10.0/LogicalTypes.md#nested-types. The layout is
checked in the footer: the path and the levels of each leaf must follow from Arrow's view of the schema.

A leaf must have exactly its type in the table: leaves are not widened. Fields of structs are found by name, ignoring
case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core.formats.key_values import KeyColumn, Values, arrow_of, decoding, nulls
from hive_bitmap.core.formats.parquet_file import ParquetHandle, candidate_names
from hive_bitmap.core.formats.parquet_types import conversion_for, stored_kind
from hive_bitmap.core.nested_types import (
    ABSENT,
    ELEMENT,
    KEY,
    SPARK_ONLY,
    VALUE,
    ArrayOf,
    MapOf,
    NestedType,
    StructOf,
    parse,
    why_spark_only,
)
from hive_bitmap.errors import Undecodable

# For each stored kind (`parquet_types.stored_kind`), the table type as which it is read; decimals have their own check.
_LEAVES = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "date": "date",
    "timestamp[us, utc]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
    "int96": "timestamp",
}
_ELEMENTS = ("element", "item")
IsAtLeast = Callable[[ParquetHandle, int, int | None], bool]


@dataclass
class Location:
    """The location of a nested column in a file.

    `name` is the column's name in the file; "" if the file lacks the column. `leaves` are those leaves of the column
    that Arrow reads like Spark, by their ordinals among all leaves of the file. `marks` are the column's marks
    (`core/nested_types`).
    """

    name: str = ""
    leaves: list[int] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)


def marks(handle: ParquetHandle, column: KeyColumn, is_at_least: IsAtLeast) -> list[str]:
    """Return the marks of a nested column of the table (see `nested_types`).

    The result is empty if only Spark reads the column. `is_at_least` returns whether statistics prove that no value of
    a leaf is less than a floor.
    """
    try:
        location = _locate(handle, column, _type(handle, column), is_at_least)
        _require_single_rows(handle, location)
    except Undecodable:
        return []
    return location.marks


def locate(handle: ParquetHandle, column: KeyColumn) -> Location:
    """Return the location of a nested column.

    The name in the location is "" if the file lacks the column. Raises Undecodable if only Spark reads the column.
    """
    type = _type(handle, column)
    location = _locate(handle, column, type, None)
    if why := why_spark_only(column.name.lower(), type, location.marks):
        raise Undecodable(why)
    return location


def _type(handle: ParquetHandle, column: KeyColumn) -> NestedType:
    """Return the parsed type of a nested column.

    Raises Undecodable if only Spark reads the column because of its type, its id, or the names in the file.
    """
    type = parse(column.type)
    if type is None or column.field_id is not None or not _has_plain_paths(handle):
        raise Undecodable(f"only Spark reads column {column.name!r}")
    return type


def _require_single_rows(handle: ParquetHandle, location: Location) -> None:
    """Raise Undecodable if Arrow misses the only row of a row group.

    Writers may begin the column chunks of such a row group with an empty page, and Arrow 26 then reads no row.
    """
    groups = range(handle.metadata.num_row_groups)
    for group in groups if location.leaves else ():
        if handle.metadata.row_group(group).num_rows == 1:
            with decoding(f"block {group}"):
                rows = handle.reader().read_row_group(group, columns=[location.name], use_threads=False).num_rows
            if rows != 1:
                raise Undecodable(f"Arrow reads {rows} of 1 row of block {group}")


def _has_plain_paths(handle: ParquetHandle) -> bool:
    """Return whether the path of each leaf is unambiguous.

    The path must be unambiguous even for readers that split paths at dots.
    """
    schema = handle.metadata.schema
    paths = sorted(schema.column(ordinal).path + "." for ordinal in range(len(schema)))
    return not any(path.startswith(before) for before, path in pairwise(paths)) and not any(
        "." in name for name in handle.names
    )


def _locate(handle: ParquetHandle, column: KeyColumn, type: NestedType, is_at_least: IsAtLeast | None) -> Location:
    names = candidate_names(handle, column)
    root = column.name.lower()
    if not names:
        return Location(marks=[root, root + ABSENT])
    if len(names) > 1:
        raise Undecodable(f"column {column.name!r} is ambiguous")
    with decoding("its footer"):
        schema = handle.metadata.schema.to_arrow_schema()
    if list(schema.names) != handle.names or sum(map(_count, schema.types)) != len(handle.metadata.schema):
        raise Undecodable("its columns have types of other systems")
    at = handle.names.index(names[0])
    first = sum(map(_count, schema.types[:at]))
    location = Location(names[0], marks=[root])
    _Walk(handle, is_at_least, location).column(root, type, schema.field(at), first)
    return location


def _count(type: pa.DataType) -> int:
    """Return the number of leaves of an Arrow type."""
    return sum(_count(type.field(at).type) for at in range(type.num_fields)) if type.num_fields else 1


@dataclass(frozen=True)
class _Node:
    """A node of the file's schema.

    `field` is the node's Arrow field, `first` the ordinal of its first leaf. `path` has the names from the root to the
    node, joined by dots. `definition` and `repetition` are the definition and repetition level of the nodes above it.
    """

    field: pa.Field
    first: int
    path: str
    definition: int
    repetition: int

    @property
    def inside(self) -> int:
        """The definition level of the node's own content."""
        return self.definition + self.field.nullable

    def children(self, steps: Sequence[str], fields: Sequence[pa.Field], repeated: int) -> Iterator[_Node]:
        """Yield the children of the node.

        `fields` are the Arrow fields of the children. `steps` are the names between the node and its children in the
        path of a leaf, for example `list`. `repeated` is 1 if the node repeats its children, otherwise 0.
        """
        first = self.first
        for child in fields:
            path = ".".join((self.path, *steps, child.name))
            yield _Node(child, first, path, self.inside + repeated, self.repetition + repeated)
            first += _count(child.type)


@dataclass(frozen=True)
class _Walk:
    """A comparison of a type of the table with a column of the file.

    The comparison adds leaves and marks to `location`. If `is_at_least` is None, statistics are not looked at.
    """

    handle: ParquetHandle
    is_at_least: IsAtLeast | None
    location: Location

    def column(self, path: str, type: NestedType, stored: pa.Field, first: int) -> None:
        self._node(path, type, _Node(stored, first, stored.name, 0, 0))

    def _node(self, path: str, type: NestedType, node: _Node) -> None:
        stored = node.field.type
        match type:
            case StructOf() if pa.types.is_struct(stored):
                self._struct(path, type, node)
            case ArrayOf(element) if pa.types.is_list(stored) or pa.types.is_large_list(stored):
                [inner] = node.children(["list"], [stored.value_field], 1)
                if inner.field.name not in _ELEMENTS:
                    self._refuse(path)
                self._node(f"{path}.{ELEMENT}", element, inner)
            case MapOf(key, value) if pa.types.is_map(stored):
                keys, values = node.children(["key_value"], [stored.key_field, stored.item_field], 1)
                if (keys.field.name, values.field.name) != ("key", "value") or keys.field.nullable:
                    self._refuse(path)
                self._node(f"{path}.{KEY}", key, keys)
                self._node(f"{path}.{VALUE}", value, values)
            case str() if not stored.num_fields and self._is_alike(type, node):
                self.location.leaves.append(node.first)
            case _:
                self._refuse(path)

    def _struct(self, path: str, type: StructOf, node: _Node) -> None:
        stored = node.field.type
        nodes = list(node.children([], [stored.field(at) for at in range(stored.num_fields)], 0))
        for name, inner in type.fields:
            same = [child for child in nodes if child.field.name.lower() == name.lower()]
            if not same:
                self.location.marks.append(f"{path}.{name.lower()}{ABSENT}")
            elif len(same) > 1:
                self._refuse(f"{path}.{name.lower()}")
            else:
                self._node(f"{path}.{name.lower()}", inner, same[0])

    def _refuse(self, path: str) -> None:
        self.location.marks.append(path + SPARK_ONLY)

    def _is_alike(self, type: str, node: _Node) -> bool:
        """Return whether Arrow and Spark read all values of a leaf alike.

        `type` is the type that the table has for the leaf `node`.
        """
        stored = self.handle.metadata.schema.column(node.first)
        levels = stored.max_definition_level, stored.max_repetition_level
        if stored.path != node.path or levels != (node.inside, node.repetition):
            return False
        if not _has_type(stored, type) or not _is_arrow_type(node.field.type, arrow_of(type)):
            return False
        how = conversion_for(stored, KeyColumn(node.path, type), self.handle.metadata.metadata)
        return how.always_alike or (
            not how.narrowed and (self.is_at_least is None or self.is_at_least(self.handle, node.first, how.floor))
        )


def _has_type(stored: pq.ColumnSchema, type: str) -> bool:
    kind = stored_kind(stored)
    if kind == "decimal":
        return type == f"decimal({stored.precision},{stored.scale})"
    if kind == "string" and stored.logical_type.type != "STRING":
        return False
    return _LEAVES.get(kind) == type


def _is_arrow_type(stored: pa.DataType, needed: pa.DataType) -> bool:
    """Return whether a leaf has the Arrow type that its table type needs.

    `stored` is the Arrow type of the leaf, which an Arrow schema in the file may have changed.
    """
    if pa.types.is_timestamp(needed):
        return pa.types.is_timestamp(stored)
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return stored in (needed, large.get(needed))


def converted(values: Values, column: KeyColumn) -> pa.Array:
    """Convert stored values to the type that a nested column has in the table.

    `values` are the values as a reader of the file returns them. Raises Undecodable for a value that does not fit.
    """
    type = parse(column.type)
    if type is None:
        raise Undecodable(f"only Spark reads column {column.name!r}")
    with decoding(f"column {column.name!r}"):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        parts = [_converted(chunk, type) for chunk in chunks]
        return pa.concat_arrays(parts) if parts else nulls(column, 0)


def _converted(values: Any, type: NestedType) -> pa.Array:
    target = arrow_of(type)
    match type:
        case ArrayOf(element):
            values = values.cast(pa.list_(values.type.value_type)) if pa.types.is_large_list(values.type) else values
            return _lists(values, target, _converted(values.values, element))
        case MapOf(key, value):
            pairs = [_converted(values.keys, key), _converted(values.items, value)]
            entries = pa.StructArray.from_arrays(pairs, fields=[target.key_field, target.item_field])
            return _lists(values, target, entries)
        case StructOf(fields):
            names = [values.type.field(at).name.lower() for at in range(values.type.num_fields)]
            children = [
                _converted(values.field(names.index(name.lower())), inner)
                if name.lower() in names
                else pa.nulls(len(values), arrow_of(inner))
                for name, inner in fields
            ]
            return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())
    return pc.cast(values, options=pc.CastOptions(target, allow_invalid_utf8=True))


def _lists(values: Any, target: pa.DataType, children: pa.Array) -> pa.Array:
    """Return lists or maps with the elements `children`.

    The result has the offsets and NULLs of `values`, and the type `target`.
    """
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(target, len(values), buffers, values.null_count, values.offset, [children])
