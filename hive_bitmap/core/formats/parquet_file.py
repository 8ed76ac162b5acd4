"""Open Parquet files, and find columns by Spark's rules.

Columns are found by name, ignoring case. If the table maps its columns by id, columns are found by their ids in the
file. A missing column is NULL.

The bytes of the footer are checked first, because Arrow does not show encryption. For an encrypted column, some calls
of Arrow end the process: a C++ exception escapes.

The structures are `FileMetaData` and `ColumnChunk` of
https://github.com/apache/parquet-format/blob/apache-parquet-format-2.10.0/src/main/thrift/parquet.thrift, in Thrift's
compact protocol, https://github.com/apache/thrift/blob/v0.20.0/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.formats.bytestream import signed, unsigned
from hive_bitmap.core.formats.key_values import KeyColumn, decoding
from hive_bitmap.core.formats.parquet_types import Conversion, conversion_for
from hive_bitmap.errors import Undecodable

PARQUET_FOOTER_ENCRYPTED = "the footer is encrypted: an index would hold values in plain text"
PARQUET_COLUMN_ENCRYPTED = "some column is encrypted: an index would hold its values in plain text"
_DAMAGED = "its footer is damaged"

_PARQUET_END = 8  # bytes of the footer's length and the magic, the last ones of a file
_PARQUET_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"
# Types of the compact protocol. A boolean field has no bytes besides its type.
_BOOLEANS, _VARINTS, _LISTS = (1, 2), (4, 5, 6), (9, 10)
_BYTE, _DOUBLE, _BINARY, _MAP, _STRUCT, _UUID = 3, 7, 8, 11, 12, 13


@dataclass(frozen=True)
class _Struct:
    """What to check and record for one kind of footer struct.

    Fields are given by their ids in Thrift. `inner` has the rules for the structs inside this struct, by field.
    Undecodable is raised if the struct has one of the fields `encrypted`, or lacks one of the fields `required`. If
    `name` is not empty, an item of Notes is recorded for each struct of this kind. The item has the name, and the
    positions of those fields of the struct that are in `noted`.
    """

    inner: Mapping[int, _Struct] = field(default_factory=dict)
    encrypted: frozenset[int] = frozenset()
    required: frozenset[int] = frozenset()
    name: str = ""
    noted: frozenset[int] = frozenset()


Notes = list[tuple[str, dict[int, int]]]  # the name of each noted struct, and where its fields begin

_TYPE, _REPETITION, _CHILDREN = 1, 3, 5  # fields of SchemaElement
_TEXT_BYTES, _REPETITION_HISTOGRAM, _DEFINITION_HISTOGRAM = 1, 2, 3  # fields of SizeStatistics
_OPTIONAL, _REPEATED, _BYTE_ARRAY = 1, 2, 6  # repetitions, and a type
_ELEMENT = _Struct(name="element", noted=frozenset((_TYPE, _REPETITION, _CHILDREN)))
_SIZES = _Struct(name="sizes", noted=frozenset((_TEXT_BYTES, _REPETITION_HISTOGRAM, _DEFINITION_HISTOGRAM)))
_CHUNK = _Struct(  # encrypted: crypto_metadata, its bytes; required: meta_data
    inner={3: _Struct(inner={16: _SIZES})}, encrypted=frozenset((8, 9)), required=frozenset((3,)), name="chunk"
)
_ROW_GROUP = _Struct(inner={1: _CHUNK}, name="row group")
_FILE = _Struct(  # encrypted: encryption_algorithm, footer_signing_key_metadata
    inner={2: _ELEMENT, 4: _ROW_GROUP}, encrypted=frozenset((8, 9))
)


def parquet_footer_length(source: pa.NativeFile) -> int:
    """Return the number of bytes of the footer.

    Raises Undecodable if the footer is encrypted or longer than the file, or if the file is not a Parquet file.
    """
    end = source.read_at(_PARQUET_END, max(source.size() - _PARQUET_END, 0))
    if end[-4:] == _ENCRYPTED_MAGIC:
        raise Undecodable(PARQUET_FOOTER_ENCRYPTED)
    if len(end) < _PARQUET_END or end[-4:] != _PARQUET_MAGIC:
        raise Undecodable("it does not end as a Parquet file does")
    length = int.from_bytes(end[:4], "little")
    if length > source.size() - _PARQUET_END:
        raise Undecodable(f"its footer has {length:,} bytes, more than the file")
    return length


def require_plain_parquet(source: pa.NativeFile) -> None:
    """Require a Parquet file without encryption.

    Raises Undecodable if the footer or a column is encrypted, if the footer is damaged, or if the size statistics in
    the footer do not fit the schema.
    """
    size = parquet_footer_length(source)
    footer = source.read_at(size, source.size() - _PARQUET_END - size)
    try:
        notes: Notes = []
        _check_struct(footer, 0, _FILE, notes)
        _require_sound_sizes(footer, notes)
    except (IndexError, RecursionError) as error:
        raise Undecodable(_DAMAGED) from error


def _require_sound_sizes(data: bytes, notes: Notes) -> None:
    """Require size statistics that fit the schema.

    `data` is the footer, and `notes` has the structs that `_check_struct` found in it. If the statistics do not fit,
    some calls of Arrow end the process. `SizeStatistics::Validate` has the same checks, see
    https://github.com/apache/arrow/blob/apache-arrow-19.0.0/cpp/src/parquet/size_statistics.cc. Raises Undecodable.
    """
    if not any(name == _SIZES.name for name, _ in notes):
        return
    leaves = _leaves(data, [fields for name, fields in notes if name == _ELEMENT.name])
    chunk = -1
    for name, fields in notes:
        if name == _ROW_GROUP.name:
            chunk = -1
        elif name == _CHUNK.name:
            chunk += 1
        elif name == _SIZES.name:
            kind, *levels = leaves[chunk]
            histograms = (fields.get(number) for number in (_DEFINITION_HISTOGRAM, _REPETITION_HISTOGRAM))
            counts = [0 if place is None else _list_head(data, place)[0] for place in histograms]
            fit = all(count in (0, level + 1) for count, level in zip(counts, levels, strict=True))
            if not fit or (_TEXT_BYTES in fields and kind != _BYTE_ARRAY):
                raise Undecodable("its size statistics do not fit its schema")


def _leaves(data: bytes, elements: Sequence[Mapping[int, int]]) -> list[tuple[int, int, int]]:
    """Return the physical type and the greatest levels of each leaf column.

    Each tuple is (type, greatest definition level, greatest repetition level). `elements` has an item for each
    SchemaElement of the footer `data`: the positions of its fields in `data`, by field.
    """

    def number(fields: Mapping[int, int], field_id: int, default: int) -> int:
        return unsigned(data, fields[field_id])[0] >> 1 if field_id in fields else default  # none is negative

    leaves: list[tuple[int, int, int]] = []
    groups: list[tuple[int, int, int]] = []  # the number of children that follow, and the levels of the group
    for fields in elements:
        children, repetition = number(fields, _CHILDREN, 0), number(fields, _REPETITION, 0)
        while groups and not groups[-1][0]:
            groups.pop()
        definition, repeated = 0, 0
        if groups:
            remaining, definition, repeated = groups[-1]
            groups[-1] = remaining - 1, definition, repeated
            definition += repetition in (_OPTIONAL, _REPEATED)
            repeated += repetition == _REPEATED
        if children or not groups:
            groups.append((children, definition, repeated))
        else:
            leaves.append((number(fields, _TYPE, -1), definition, repeated))
    return leaves


def _check_struct(data: bytes, at: int, struct: _Struct, notes: Notes) -> int:
    """Check the struct that begins at data[at], and add entries to `notes`.

    Return the position after the struct. Raises Undecodable.
    """
    number, present, places = 0, set(), dict[int, int]()
    if struct.name:
        notes.append((struct.name, places))
    while head := data[at]:
        number, at = _field(data, at, number)
        if number in struct.encrypted:
            raise Undecodable(PARQUET_COLUMN_ENCRYPTED)
        present.add(number)
        if number in struct.noted:
            places[number] = at
        inner = struct.inner.get(number)
        at = _skip_value(data, at, head & 15) if inner is None else _check_structs(data, at, head & 15, inner, notes)
    if not struct.required <= present:
        raise Undecodable("its footer does not describe all columns")
    return at + 1


def _check_structs(data: bytes, at: int, kind: int, struct: _Struct, notes: Notes) -> int:
    """Check a struct or a list of structs, which begins at data[at].

    `kind` is the type of the field, by its number in Thrift. Entries are added to `notes`, as in `_check_struct`.
    Return the position after the value. Raises Undecodable for a value of another type.
    """
    count, inner, at = _list_head(data, at) if kind in _LISTS else (1, kind, at)
    if count and inner != _STRUCT:
        raise Undecodable(_DAMAGED)
    for _ in range(count):
        at = _check_struct(data, at, struct, notes)
    return at


def _field(data: bytes, at: int, before: int) -> tuple[int, int]:
    """Return the id of a field, and the position after its header.

    The header begins at data[at]. `before` is the id of the preceding field, 0 for the first field.
    """
    if near := data[at] >> 4:
        return before + near, at + 1
    return signed(data, at + 1)


def _skip_value(data: bytes, at: int, kind: int) -> int:
    """Return the position after the value of type `kind` that begins at data[at].

    Raises Undecodable for an unknown type.
    """
    if kind in _BOOLEANS:
        return at
    if kind in _VARINTS:
        while data[at] >= 128:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = unsigned(data, at)
        return at + size
    if kind == _STRUCT:
        while head := data[at]:
            _, at = _field(data, at, 0)
            at = _skip_value(data, at, head & 15)
        return at + 1
    if kind in _LISTS:
        count, inner, at = _list_head(data, at)
        return _skip_values(data, at, count, inner, inner)
    if kind == _MAP:
        count, at = unsigned(data, at)
        if not count:
            return at
        return _skip_values(data, at + 1, count, data[at] >> 4, data[at] & 15, both=True)
    if kind in (_BYTE, _DOUBLE, _UUID):
        return at + {_BYTE: 1, _DOUBLE: 8, _UUID: 16}[kind]
    raise Undecodable(_DAMAGED)


def _skip_values(data: bytes, at: int, count: int, first: int, second: int, *, both: bool = False) -> int:
    """Return the position after the values of a list or map.

    The values begin at data[at]. A list has `count` values of the type `first`. A map (`both`) has `count` pairs, with
    keys of the type `first` and values of the type `second`. In lists and maps, a boolean takes a byte.
    """
    for _ in range(count):
        for kind in (first, second) if both else (first,):
            at = at + 1 if kind in _BOOLEANS else _skip_value(data, at, kind)
        if at > len(data):
            raise Undecodable(_DAMAGED)
    return at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Decode the header of a list.

    The header begins at data[at]. Return the count and the type of the list's elements, and the position of the first
    element.
    """
    head = data[at]
    at += 1
    count = head >> 4
    if count == 15:
        count, at = unsigned(data, at)
    return count, head & 15, at


FIELD_ID = b"PARQUET:field_id"  # the key under which Arrow keeps a column's id


@dataclass(frozen=True, kw_only=True)
class ParquetHandle:
    """An open Parquet file.

    `names` are the top-level columns. `dictionaries` are the columns that the Arrow schema in the file declares as
    dictionaries: Arrow reads these columns as dictionaries.
    """

    path: str
    source: pa.NativeFile
    metadata: pq.FileMetaData
    names: list[str]
    dictionaries: frozenset[str]

    @cached_property
    def fields(self) -> dict[str, list[str]]:
        """The top-level columns of the file, by lower-case name.

        The names of several columns may differ only in case.
        """
        by_lower_name: dict[str, list[str]] = {}
        for name in self.names:
            by_lower_name.setdefault(name.lower(), []).append(name)
        return by_lower_name

    @cached_property
    def leaves(self) -> dict[str, int]:
        """The ordinals of the simple columns, by name.

        A simple column is neither nested nor repeated.
        """
        schema = self.metadata.schema
        columns = ((schema.column(ordinal), ordinal) for ordinal in range(len(schema)))
        return {leaf.name: at for leaf, at in columns if leaf.path == leaf.name and not leaf.max_repetition_level}

    @cached_property
    def field_ids(self) -> dict[str, int | None]:
        """The ids of the top-level columns, by name.

        None stands for a column without an id.
        """
        with decoding("its footer"):
            schema = self.metadata.schema.to_arrow_schema()
        ids = ((field.name, (field.metadata or {}).get(FIELD_ID)) for field in schema)
        return {name: None if id is None else int(id) for name, id in ids}

    def is_delta(self, name: str, blocks: Iterable[int]) -> bool:
        """Return whether a column has DELTA-encoded pages in any of these row groups.

        `name` is the name of the column, and `blocks` has the positions of the row groups in the file. Arrow does not
        read such pages as dictionaries.
        """

        chunks = (self.metadata.row_group(block).column(self.leaves[name]) for block in blocks)
        return any(encoding.startswith("DELTA") for chunk in chunks for encoding in chunk.encodings)

    def reader(self, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        """Return a reader of the file.

        The reader reads the string columns `dictionaries` as dictionaries, and INT96 in microseconds. In nanoseconds,
        pyarrow's default, the year 9999 would overflow to 1816.
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
        length = parquet_footer_length(source)
        file = pq.ParquetFile(source)
        if file.metadata.serialized_size != length:  # a signature follows, as in every file with an encrypted column
            require_plain_parquet(source)
        schema = file.schema_arrow
        dictionaries = frozenset(field.name for field in schema if pa.types.is_dictionary(field.type))
        return ParquetHandle(
            path=path, source=source, metadata=file.metadata, names=schema.names, dictionaries=dictionaries
        )


def find(handle: ParquetHandle, column: KeyColumn) -> tuple[str, Conversion] | None:
    """Return a column's name in the file and how to read it.

    Returns None if the file lacks the column. Raises Undecodable if the column is ambiguous in the file, if it is
    nested in the file, if the table maps columns by id and the file lacks ids, or if Arrow may read other values than
    Spark.
    """
    names = candidate_names(handle, column)
    if not names:
        return None
    if len(names) > 1:
        raise Undecodable(f"column {column.name!r} is ambiguous: the file has {', '.join(names)}")
    if names[0] not in handle.leaves:
        raise Undecodable(f"column {column.name!r} is nested in the file")
    leaf = handle.metadata.schema.column(handle.leaves[names[0]])
    return names[0], conversion_for(leaf, column, handle.metadata.metadata)


def candidate_names(handle: ParquetHandle, column: KeyColumn) -> list[str]:
    """Return the names of the top-level columns that may store `column`.

    `column` is a column of the table. If `column` has a field id, Undecodable is raised if a column of the file has no
    id, or if two columns of the file have the same name.
    """
    if column.field_id is None:
        return handle.fields.get((column.file_name or column.name).lower(), [])
    if None in handle.field_ids.values() or len(handle.field_ids) < len(handle.names):
        raise Undecodable(f"column {column.name!r} has an id in the table, and columns of the file have none")
    return [name for name, id in handle.field_ids.items() if id == column.field_id]
