"""The ends of Parquet and ORC files as bytes: whether a file is encrypted, and in which version ORC was written.

Arrow does not show that a file is encrypted. Of an encrypted column of ORC, it reads the masked values that stand
beside it. Some calls about one of Parquet end the process: an exception of C++ escapes. So the bytes are read here,
before anything else opens the file.

The structures of Parquet are `FileMetaData` and `ColumnChunk` of
https://github.com/apache/parquet-format/blob/apache-parquet-format-2.10.0/src/main/thrift/parquet.thrift, in Thrift's
compact protocol, https://github.com/apache/thrift/blob/v0.20.0/doc/specs/thrift-compact-protocol.md. Those of ORC are
`PostScript` and `Footer` of https://github.com/apache/orc-format/blob/v1.0.0/src/main/proto/orc/proto/orc_proto.proto.
Readers of ORC take the encryption of a file from its footer; what a stripe says of it counts for nothing without that.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from hive_bitmap.core.formats.bytestream import signed, unsigned
from hive_bitmap.errors import Undecodable

PARQUET_FOOTER_ENCRYPTED = "the footer is encrypted: an index would hold values in plain text"
PARQUET_COLUMN_ENCRYPTED = "some column is encrypted: an index would hold its values in plain text"
ORC_ENCRYPTED = "some column is encrypted: Arrow would read masked values, and an index would hold plain text"
DAMAGED = "its footer is damaged"

_PARQUET_END = 8  # bytes of the footer's length and the magic, the last ones of a file
_PARQUET_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"
# Types of the compact protocol. A boolean field has no bytes beside its type.
_BOOLEANS, _VARINTS, _LISTS = (1, 2), (4, 5, 6), (9, 10)
_BYTE, _DOUBLE, _BINARY, _MAP, _STRUCT, _UUID = 3, 7, 8, 11, 12, 13


@dataclass(frozen=True)
class _Struct:
    """What is checked of a struct: the structs in lists of it by field, and fields that it must not or must have."""

    inner: Mapping[int, _Struct] = field(default_factory=dict)
    encrypted: frozenset[int] = frozenset()
    required: frozenset[int] = frozenset()


_CHUNK = _Struct(encrypted=frozenset((8, 9)), required=frozenset((3,)))  # (crypto_metadata, its bytes), meta_data
_ROW_GROUP = _Struct(inner={1: _CHUNK})
_FILE = _Struct(inner={4: _ROW_GROUP}, encrypted=frozenset((8, 9)))  # encryption_algorithm, footer_signing_key_metadata


def parquet_footer_length(source: pa.NativeFile) -> int:
    """Return the number of bytes of the footer; raise Undecodable for an encrypted one and for another format."""
    end = source.read_at(_PARQUET_END, max(source.size() - _PARQUET_END, 0))
    if end[-4:] == _ENCRYPTED_MAGIC:
        raise Undecodable(PARQUET_FOOTER_ENCRYPTED)
    if len(end) < _PARQUET_END or end[-4:] != _PARQUET_MAGIC:
        raise Undecodable("it does not end as a Parquet file does")
    found = int.from_bytes(end[:4], "little")
    if found > source.size() - _PARQUET_END:
        raise Undecodable(f"its footer has {found:,} bytes, more than the file")
    return found


def require_plain_parquet(source: pa.NativeFile) -> None:
    """Raise Undecodable unless the footer shows that neither it nor any column is encrypted."""
    size = parquet_footer_length(source)
    footer = source.read_at(size, source.size() - _PARQUET_END - size)
    try:
        _after_struct(footer, 0, _FILE)
    except (IndexError, RecursionError) as error:
        raise Undecodable(DAMAGED) from error


def _after_struct(data: bytes, at: int, struct: _Struct) -> int:
    """Return the place behind a struct, which is checked; raise Undecodable."""
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
    """Return the place behind a list of such structs; raise Undecodable for another value."""
    count, inner, at = _list_head(data, at) if kind in _LISTS else (1, 0, at)
    if count and inner != _STRUCT:
        raise Undecodable(DAMAGED)
    for _ in range(count):
        at = _after_struct(data, at, struct)
    return at


def _field(data: bytes, at: int, before: int) -> tuple[int, int]:
    """Return the id of the field whose head is at this place, and the place behind that; `before` is the last id."""
    if near := data[at] >> 4:
        return before + near, at + 1
    return signed(data, at + 1)


def _after(data: bytes, at: int, kind: int) -> int:
    """Return the place behind a value of this type."""
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
    raise Undecodable(DAMAGED)


def _after_all(data: bytes, at: int, count: int, first: int, second: int, *, both: bool = False) -> int:
    """Return the place behind so many values of a list, or pairs of a map, in which a boolean takes a byte."""
    for _ in range(count):
        for kind in (first, second) if both else (first,):
            at = at + 1 if kind in _BOOLEANS else _after(data, at, kind)
        if at > len(data):
            raise Undecodable(DAMAGED)
    return at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the count and the type of the elements of a list, and the place of the first."""
    head = data[at]
    at += 1
    count = head >> 4
    if count == 15:
        count, at = unsigned(data, at)
    return count, head & 15, at


_ORC_MAGIC = b"ORC"
_KNOWN_VERSIONS = ((), (0, 11), (0, 12))  # of others Arrow's C++ prints a warning each time that it opens the file
# Fields of PostScript, Footer and StripeInformation.
_FOOTER_LENGTH, _COMPRESSION, _VERSION, _MAGIC_FIELD = 1, 2, 4, 8000
_STRIPES, _TYPES, _STATISTICS, _ENCRYPTION = 3, 4, 7, 10
_KIND, _SUBTYPES = 1, 2  # of Type
_ENCRYPT_STRIPE, _STRIPE_KEYS = 6, 7
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf
# The field of ColumnStatistics for each kind of type. C++ takes whichever field is there, and ends the process where it
# is another type's.
_STATISTICS_OF_KIND = {
    **dict.fromkeys((1, 2, 3, 4), 2),  # BYTE, SHORT, INT, LONG: IntegerStatistics
    **dict.fromkeys((5, 6), 3),  # FLOAT, DOUBLE: DoubleStatistics
    **dict.fromkeys((7, 16, 17), 4),  # STRING, VARCHAR, CHAR: StringStatistics
    0: 5,  # BOOLEAN: BucketStatistics
    14: 6,  # DECIMAL: DecimalStatistics
    15: 7,  # DATE: DateStatistics
    8: 8,  # BINARY: BinaryStatistics
    **dict.fromkeys((9, 18), 9),  # TIMESTAMP, TIMESTAMP_INSTANT: TimestampStatistics
    **dict.fromkeys((10, 11), 12),  # LIST, MAP: CollectionStatistics
}
_TYPED_STATISTICS = frozenset(_STATISTICS_OF_KIND.values())
MOST_FOOTER_BYTES = 16 << 20  # of an ORC file, decompressed


@dataclass(frozen=True)
class OrcTail:
    """What the footer of an ORC file says of its streams.

    `codec` is the number of their compression, `kinds` has the kind of type of each column, `top` the numbers of the
    columns that are no part of another, `stripes` the numbers in the fields of each StripeInformation.
    """

    codec: int
    kinds: tuple[int, ...]
    top: tuple[int, ...]
    stripes: tuple[Mapping[int, int], ...]


@contextmanager
def damaged_if_undecodable() -> Iterator[None]:
    """Turn errors about the content of a file into Undecodable. Errors of the store, which have an errno, pass."""
    try:
        yield
    except (IndexError, zlib.error, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Undecodable(DAMAGED) from error


def require_plain_orc(source: pa.NativeFile) -> OrcTail:
    """Return the tail of an ORC file; raise Undecodable unless its version is known and its footer plain and sound."""
    with damaged_if_undecodable():
        footer, codec = _orc_footer(source)
        return _tail_of(footer, codec)


def _tail_of(footer: bytes, codec: int) -> OrcTail:
    kinds, stripes, statistics = list[int](), list[Mapping[int, int]](), list[int | bytes]()
    top: tuple[int, ...] = ()
    for number, value in proto_fields(footer):
        if number == _ENCRYPTION or (number == _STRIPES and isinstance(value, bytes) and _is_encrypted(value)):
            raise Undecodable(ORC_ENCRYPTED)
        if number == _TYPES:
            if not kinds:
                top = tuple(column for of, some in message(value) if of == _SUBTYPES for column in _numbers(some))
            kinds.append(numbers_of(value).get(_KIND, 0))
        elif number == _STRIPES:
            stripes.append(numbers_of(value))
        elif number == _STATISTICS:
            statistics.append(value)
    _require_statistics_of(kinds, statistics)
    if any(column >= len(kinds) for column in top):
        raise Undecodable(DAMAGED)
    return OrcTail(codec, tuple(kinds), top, tuple(stripes))


def _require_statistics_of(kinds: Sequence[int], statistics: Sequence[int | bytes]) -> None:
    """Raise Undecodable unless each column has the statistics of its type, or all have none."""
    if not statistics:
        return
    if len(kinds) != len(statistics):
        raise Undecodable(f"its footer has statistics of {len(statistics)} columns, not of {len(kinds)}")
    for column, (kind, values) in enumerate(zip(kinds, statistics, strict=True)):
        typed = {number for number, _ in message(values)} & _TYPED_STATISTICS
        if not typed <= {_STATISTICS_OF_KIND.get(kind)}:
            raise Undecodable(f"its footer has statistics of another type for column {column}")


def _is_encrypted(stripe: bytes) -> bool:
    """Return whether StripeInformation has keys of encrypted columns."""
    return any(field in (_ENCRYPT_STRIPE, _STRIPE_KEYS) for field, _ in proto_fields(stripe))


def _orc_footer(source: pa.NativeFile) -> tuple[bytes, int]:
    """Return the footer, decompressed, and the number of the codec of the file's streams."""
    size = source.size()
    length = source.read_at(1, size - 1)[0] if size > len(_ORC_MAGIC) else size
    if length >= size:
        raise Undecodable("it does not end as an ORC file does")
    postscript = list(proto_fields(source.read_at(length, size - 1 - length)))
    said = dict(postscript)
    if said.get(_MAGIC_FIELD, _ORC_MAGIC) != _ORC_MAGIC:
        raise Undecodable("it does not end as an ORC file does")
    version = tuple(number for field, value in postscript if field == _VERSION for number in _numbers(value))
    if version not in _KNOWN_VERSIONS:
        raise Undecodable(f"it has version {'.'.join(map(str, version))} of the ORC format, which Arrow does not know")
    stored, codec = said.get(_FOOTER_LENGTH, 0), said.get(_COMPRESSION, 0)
    if isinstance(stored, bytes) or isinstance(codec, bytes) or stored > size - 1 - length:
        raise Undecodable(DAMAGED)
    return decompressed(source.read_at(stored, size - 1 - length - stored), codec), codec


def proto_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a message; raise Undecodable for a damaged one."""
    at = 0
    while at < len(data):
        key, at = unsigned(data, at)
        if key >> 3 == 0:
            raise Undecodable(DAMAGED)
        if key & 7 == _VARINT:
            number, at = unsigned(data, at)
            yield key >> 3, number
            continue
        if key & 7 == _BYTES:
            size, at = unsigned(data, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(key & 7, len(data))
        if at + size > len(data):
            raise Undecodable(DAMAGED)
        yield key >> 3, data[at : at + size]
        at += size


def _numbers(value: int | bytes) -> Iterator[int]:
    """Yield the numbers of a repeated field, packed or not."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = unsigned(value, at)
        yield number


def decompressed(data: bytes, codec: int, most: int = MOST_FOOTER_BYTES, name: str = "its footer") -> bytes:
    """Return the bytes of a stream of ORC.

    Its chunks have a header of three bytes: their length and a flag. Raises Undecodable if they are more than `most`,
    so that no small file fills the memory.
    """
    if codec == 0:
        return data
    if codec not in _CODECS:
        raise Undecodable(f"its footer is compressed by codec {codec} of ORC, which is not read here")
    chunks, at, remaining = [], 0, most
    while at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        at += 3
        chunk = data[at : at + (head >> 1)]
        if len(chunk) < head >> 1:
            raise Undecodable(DAMAGED)
        chunks.append(chunk if head & 1 else _CODECS[codec](chunk, remaining + 1))
        remaining -= len(chunks[-1])
        if remaining < 0:
            raise Undecodable(f"{name} takes more than {most:,} bytes, which only Spark reads")
        at += head >> 1
    return b"".join(chunks)


def _deflated(chunk: bytes, most: int) -> bytes:
    """Return what a chunk was, but at most `most` bytes of it, as the other codecs do."""
    inflating = zlib.decompressobj(wbits=-15)
    found = inflating.decompress(chunk, most)
    if len(found) < most and not inflating.eof:
        raise Undecodable(DAMAGED)
    return found


def _snappy(chunk: bytes, most: int) -> bytes:
    size, _ = unsigned(chunk, 0)
    if size > 255 * len(chunk):  # more than Snappy can shrink anything
        raise Undecodable(DAMAGED)
    if size > most:
        return bytes(most)
    found: bytes = pa.decompress(chunk, size, codec="snappy", asbytes=True)
    return found


def _zstd(chunk: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        found: bytes = stream.read(most)
    return found


def _lz4(chunk: bytes, most: int) -> bytes:
    """Decompress a block of LZ4, whose sequences tell its size.

    The format: https://github.com/lz4/lz4/blob/v1.9.4/doc/lz4_Block_format.md.
    """
    at = size = 0
    while True:
        token = chunk[at]
        literals, at = _lz4_length(chunk, at + 1, token >> 4)
        size, at = size + literals, at + literals
        if at >= len(chunk):
            break
        match, at = _lz4_length(chunk, at + 2, token & 15)
        size += match + 4
    if size > most:
        return bytes(most)
    content: bytes = pa.decompress(chunk, size, codec="lz4_raw", asbytes=True)
    return content


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length, whose first four bits are `length`, and the place behind its bytes."""
    if length < 15:
        return length, at
    while True:
        byte = chunk[at]
        at += 1
        length += byte
        if byte < 255:
            return length, at


_CODECS = {1: _deflated, 2: _snappy, 4: _lz4, 5: _zstd}  # by the numbers of CompressionKind; 3 is LZO


def message(value: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message in a field; raise Undecodable if a number is there instead."""
    if isinstance(value, int):
        raise Undecodable(DAMAGED)
    return proto_fields(value)


def numbers_of(value: int | bytes) -> dict[int, int]:
    """Return the fields of a message that are numbers, the last of each; raise Undecodable for a damaged message."""
    return {field: number for field, number in message(value) if isinstance(number, int)}
