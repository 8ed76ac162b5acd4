"""Check the tail of an ORC file, and read statistics from it.

The checks find encryption, unknown versions, and statistics that end the process of a C++ reader. Arrow does not show
that a file is encrypted: for an encrypted column, Arrow reads masked values, which are stored beside the encrypted
values. So this module checks the bytes before anything else opens the file. A file is encrypted if its footer describes
encryption, as for other readers of ORC.

`stripe_statistics` reads the statistics of the stripes. The functions that parse Protocol Buffers and decompress
streams also serve `orc_streams`.

The structures are `PostScript` and `Footer` of
https://github.com/apache/orc-format/blob/v1.0.0/src/main/proto/orc/proto/orc_proto.proto.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from hive_bitmap.core.formats.bytestream import unsigned
from hive_bitmap.errors import Undecodable

ORC_ENCRYPTED = "some column is encrypted: Arrow would read masked values, and an index would hold plain text"
DAMAGED = "its footer is damaged"

_ORC_MAGIC = b"ORC"
_KNOWN_VERSIONS = ((), (0, 11), (0, 12))  # Arrow prints a warning each time it opens a file of another version
# Fields of PostScript, Footer and StripeInformation.
_FOOTER_LENGTH, _COMPRESSION, _VERSION, _METADATA_LENGTH, _MAGIC_FIELD = 1, 2, 4, 5, 8000
_STRIPES, _TYPES, _STATISTICS, _ENCRYPTION = 3, 4, 7, 10
_KIND, _SUBTYPES = 1, 2  # fields of Type
_ENCRYPT_STRIPE, _STRIPE_KEYS = 6, 7
# Fields of Metadata, StripeStatistics and ColumnStatistics, and of both IntegerStatistics and DateStatistics.
_STRIPE_STATISTICS, _COLUMN_STATISTICS, _VALUES, _INTEGERS, _DATES, _MINIMUM, _MAXIMUM = 1, 1, 1, 2, 7, 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf
# The field of ColumnStatistics for each kind of type. The C++ reader reads any field that is set, and ends the process
# if the field belongs to another type.
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
MOST_FOOTER_BYTES = 16 << 20  # most decompressed bytes of a footer


@dataclass(frozen=True)
class OrcTail:
    """The parts of an ORC footer that describe streams.

    `codec` is the number of the compression. `kinds` has the type of each column, as a number of `Type.Kind`. `top` has
    the numbers of the top-level columns. `stripes` has the fields of each StripeInformation, by field number.
    """

    codec: int
    kinds: tuple[int, ...]
    top: tuple[int, ...]
    stripes: tuple[Mapping[int, int], ...]


@dataclass(frozen=True)
class StripeStatistics:
    """The statistics of an integer or date column in a stripe.

    `values` is the number of values that are not NULL. `low` and `high` are the smallest and the largest value:
    integers, or days since 1970. A missing figure is None.
    """

    values: int | None
    low: int | None
    high: int | None


@contextmanager
def damaged_if_undecodable() -> Iterator[None]:
    """Convert errors about the content of a file to Undecodable.

    Errors of the store, which have an errno, are raised unchanged.
    """
    try:
        yield
    except (IndexError, zlib.error, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Undecodable(DAMAGED) from error


def require_plain_orc(source: pa.NativeFile) -> OrcTail:
    """Return the tail of an ORC file with a plain and sound footer.

    Raises Undecodable unless the file is an ORC file of a known version, its footer shows no encryption, and the
    statistics of each column fit the column's type.
    """
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
                top = tuple(
                    column for field, subtypes in message(value) if field == _SUBTYPES for column in _numbers(subtypes)
                )
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
    """Require that the statistics of each column fit the column's type.

    `kinds` has the type of each column, `statistics` the statistics of each column. A footer may also have no
    statistics at all. Raises Undecodable.
    """
    if not statistics:
        return
    if len(kinds) != len(statistics):
        raise Undecodable(f"its footer has statistics of {len(statistics)} columns, not of {len(kinds)}")
    for column, (kind, values) in enumerate(zip(kinds, statistics, strict=True)):
        typed = {number for number, _ in message(values)} & _TYPED_STATISTICS
        if not typed <= {_STATISTICS_OF_KIND.get(kind)}:
            raise Undecodable(f"its footer has statistics of another type for column {column}")


def _is_encrypted(stripe: bytes) -> bool:
    """Return whether a StripeInformation, given as bytes, has keys of encrypted columns."""
    return any(field in (_ENCRYPT_STRIPE, _STRIPE_KEYS) for field, _ in proto_fields(stripe))


def _orc_footer(source: pa.NativeFile) -> tuple[bytes, int]:
    """Return the decompressed footer, and the codec of the file's streams.

    The codec is the number of a CompressionKind of ORC.
    """
    postscript, start = _postscript(source)
    fields = dict(postscript)
    if fields.get(_MAGIC_FIELD, _ORC_MAGIC) != _ORC_MAGIC:
        raise Undecodable("it does not end as an ORC file does")
    version = tuple(number for field, value in postscript if field == _VERSION for number in _numbers(value))
    if version not in _KNOWN_VERSIONS:
        raise Undecodable(f"it has version {'.'.join(map(str, version))} of the ORC format, which Arrow does not know")
    stored, codec = fields.get(_FOOTER_LENGTH, 0), fields.get(_COMPRESSION, 0)
    if isinstance(stored, bytes) or isinstance(codec, bytes) or stored > start:
        raise Undecodable(DAMAGED)
    return decompressed(source.read_at(stored, start - stored), codec), codec


def _postscript(source: pa.NativeFile) -> tuple[list[tuple[int, int | bytes]], int]:
    """Return the fields of the postscript, and the position of its first byte.

    Raises Undecodable if the file does not end with a postscript.
    """
    size = source.size()
    length = source.read_at(1, size - 1)[0] if size > len(_ORC_MAGIC) else size
    if length >= size:
        raise Undecodable("it does not end as an ORC file does")
    start = size - 1 - length
    return list(proto_fields(source.read_at(length, start))), start


def stripe_statistics(source: pa.NativeFile, columns: Sequence[int]) -> list[dict[int, StripeStatistics | None]]:
    """Return the statistics of integer and date columns in each stripe.

    `columns` are the numbers of these columns in the file. The result has a mapping for each stripe, by column number;
    None stands for a column without statistics. The result is empty for a file without statistics of stripes. Raises
    Undecodable.
    """
    with damaged_if_undecodable():
        postscript, start = _postscript(source)
        fields = dict(postscript)
        footer, size, codec = (fields.get(field, 0) for field in (_FOOTER_LENGTH, _METADATA_LENGTH, _COMPRESSION))
        if isinstance(footer, bytes) or isinstance(size, bytes) or isinstance(codec, bytes) or footer + size > start:
            raise Undecodable(DAMAGED)
        stored = source.read_at(size, start - footer - size)
        metadata = decompressed(stored, codec, name="the statistics of its stripes")
        return [_of_stripe(stripe, columns) for field, stripe in proto_fields(metadata) if field == _STRIPE_STATISTICS]


def _of_stripe(stripe: int | bytes, columns: Sequence[int]) -> dict[int, StripeStatistics | None]:
    stated = [statistics for field, statistics in message(stripe) if field == _COLUMN_STATISTICS]
    return {column: _of_column(stated[column]) if column < len(stated) else None for column in columns}


def _of_column(statistics: int | bytes) -> StripeStatistics:
    fields = dict(message(statistics))
    typed = fields.get(_INTEGERS, fields.get(_DATES, b""))
    ends = numbers_of(typed)
    low, high = ((ends[end] >> 1) ^ -(ends[end] & 1) if end in ends else None for end in (_MINIMUM, _MAXIMUM))
    values = fields.get(_VALUES)
    return StripeStatistics(values if isinstance(values, int) else None, low, high)


def proto_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a Protocol Buffers message.

    A value is an int for a varint, and bytes for any other type. Raises Undecodable for a damaged message.
    """
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
    """Yield the numbers in one value of a repeated field.

    The value is a single number or, if the field is packed, the bytes of several numbers.
    """
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = unsigned(value, at)
        yield number


def decompressed(data: bytes, codec: int, most: int = MOST_FOOTER_BYTES, name: str = "its footer") -> bytes:
    """Decompress a stream of ORC.

    `data` has the stored bytes, and `codec` is the number of the compression. With codec 0, the data are not
    compressed, and are returned unchanged. With other codecs, each chunk of the stream has a header of three bytes: its
    length, and a flag for uncompressed chunks. Raises Undecodable for damaged chunks, and for a codec that is not
    supported. Also raises Undecodable if chunks decompress to more than `most` bytes, so that a small file cannot fill
    the memory. `name` names the stream in the message.
    """
    if codec == 0:
        return data
    if codec not in _CODECS:
        raise Undecodable(f"its footer is compressed by codec {codec} of ORC, which is not supported")
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
    """Decompress a chunk of a zlib stream, and return at most `most` bytes.

    The functions for other codecs have the same limit.
    """
    inflating = zlib.decompressobj(wbits=-15)
    content = inflating.decompress(chunk, most)
    if len(content) < most and not inflating.eof:
        raise Undecodable(DAMAGED)
    return content


def _snappy(chunk: bytes, most: int) -> bytes:
    size, _ = unsigned(chunk, 0)
    if size > 255 * len(chunk):  # Snappy cannot compress so much
        raise Undecodable(DAMAGED)
    if size > most:
        return bytes(most)
    content: bytes = pa.decompress(chunk, size, codec="snappy", asbytes=True)
    return content


def _zstd(chunk: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        content: bytes = stream.read(most)
    return content


def _lz4(chunk: bytes, most: int) -> bytes:
    """Decompress a block of LZ4.

    The decompressed size follows from the sequences of the block. If the size is more than `most`, the block is not
    decompressed: the result is `most` zero bytes, which show the caller that the limit is reached. The format:
    https://github.com/lz4/lz4/blob/v1.9.4/doc/lz4_Block_format.md.
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
    """Decode a length in a sequence of LZ4.

    `length` is the number in four bits of the sequence's token. If `length` is 15, the bytes from chunk[at] are added
    to it, up to and including the first byte below 255. Return the length, and the position after these bytes.
    """
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
    """Yield the fields of a nested message, as `proto_fields` does.

    `value` is the value of the field that has the nested message. Raises Undecodable if the value is a number.
    """
    if isinstance(value, int):
        raise Undecodable(DAMAGED)
    return proto_fields(value)


def numbers_of(value: int | bytes) -> dict[int, int]:
    """Return the numeric fields of a nested message, by field number.

    `value` is the value of the field that has the nested message. For a repeated field, the last value is returned.
    Raises Undecodable for a damaged message.
    """
    return {field: number for field, number in message(value) if isinstance(number, int)}
