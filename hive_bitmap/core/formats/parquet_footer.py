"""Check the footer of a Parquet file, as bytes.

The checks find encryption. Arrow does not show that a file is encrypted, and for an encrypted column some of its calls
end the process: an exception of C++ escapes. So the bytes are read here, before anything else opens the file.

The structures are `FileMetaData` and `ColumnChunk` of
https://github.com/apache/parquet-format/blob/apache-parquet-format-2.10.0/src/main/thrift/parquet.thrift, in Thrift's
compact protocol, https://github.com/apache/thrift/blob/v0.20.0/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from hive_bitmap.core.formats.bytestream import unsigned
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
    """The checks of a struct.

    `inner` has the structs in its lists, by field; `encrypted` are fields that it must not have, `required` fields that
    it must have.
    """

    inner: Mapping[int, _Struct] = field(default_factory=dict)
    encrypted: frozenset[int] = frozenset()
    required: frozenset[int] = frozenset()


_CHUNK = _Struct(encrypted=frozenset((8, 9)), required=frozenset((3,)))  # (crypto_metadata, its bytes), meta_data
_ROW_GROUP = _Struct(inner={1: _CHUNK})
_FILE = _Struct(inner={4: _ROW_GROUP}, encrypted=frozenset((8, 9)))  # encryption_algorithm, footer_signing_key_metadata


def parquet_footer_length(source: pa.NativeFile) -> int:
    """Return the number of bytes of the footer.

    Raises Undecodable for an encrypted footer and for another format.
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

    Raises Undecodable unless the footer shows that neither it nor any column is encrypted.
    """
    size = parquet_footer_length(source)
    footer = source.read_at(size, source.size() - _PARQUET_END - size)
    try:
        _after_struct(footer, 0, _FILE)
    except (IndexError, RecursionError) as error:
        raise Undecodable(_DAMAGED) from error


def _after_struct(data: bytes, at: int, struct: _Struct) -> int:
    """Check a struct, and return the place behind it.

    Raises Undecodable.
    """
    number, present = 0, set()
    while head := data[at]:
        number, at = _field(data, at, number)
        if number in struct.encrypted:
            raise Undecodable(PARQUET_COLUMN_ENCRYPTED)
        present.add(number)
        inner = struct.inner.get(number)
        at = _after(data, at, head & 15) if inner is None else _after_structs(data, at, head & 15, inner)
    if not struct.required <= present:
        raise Undecodable("its footer does not describe all columns")
    return at + 1


def _after_structs(data: bytes, at: int, kind: int, struct: _Struct) -> int:
    """Check a list of such structs, and return the place behind it.

    Raises Undecodable for another value.
    """
    count, inner, at = _list_head(data, at) if kind in _LISTS else (1, 0, at)
    if count and inner != _STRUCT:
        raise Undecodable(_DAMAGED)
    for _ in range(count):
        at = _after_struct(data, at, struct)
    return at


def _field(data: bytes, at: int, before: int) -> tuple[int, int]:
    """Return the id of a field, and the place behind its head.

    The head is at `at`, and `before` is the last id.
    """
    if near := data[at] >> 4:
        return before + near, at + 1
    zigzag, at = unsigned(data, at + 1)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def _after(data: bytes, at: int, kind: int) -> int:
    """Return the place behind a value of this type.

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
            at = _after(data, at, head & 15)
        return at + 1
    if kind in _LISTS:
        count, inner, at = _list_head(data, at)
        return _after_all(data, at, count, inner, inner)
    if kind == _MAP:
        count, at = unsigned(data, at)
        if not count:
            return at
        return _after_all(data, at + 1, count, data[at] >> 4, data[at] & 15, both=True)
    if kind in (_BYTE, _DOUBLE, _UUID):
        return at + {_BYTE: 1, _DOUBLE: 8, _UUID: 16}[kind]
    raise Undecodable(_DAMAGED)


def _after_all(data: bytes, at: int, count: int, first: int, second: int, *, both: bool = False) -> int:
    """Return the place behind the values of a list or map.

    There are `count` values of a list, or pairs of a map, in which a boolean takes a byte.
    """
    for _ in range(count):
        for kind in (first, second) if both else (first,):
            at = at + 1 if kind in _BOOLEANS else _after(data, at, kind)
        if at > len(data):
            raise Undecodable(_DAMAGED)
    return at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the count, the type and the place of a list's elements.

    The place is that of the first element.
    """
    head = data[at]
    at += 1
    count = head >> 4
    if count == 15:
        count, at = unsigned(data, at)
    return count, head & 15, at
