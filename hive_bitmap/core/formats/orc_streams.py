"""Check the bytes of the streams of ORC stripes.

Readers differ in how they treat streams that do not fit the type of their column. The C++ reader adds up the lengths of
the texts of a stripe, and ends the process if some lengths are negative or very large. So the kinds of streams and the
lengths of texts are checked before the C++ reader reads a stripe.

The structures are `StripeFooter` of
https://github.com/apache/orc-format/blob/v1.0.0/src/main/proto/orc/proto/orc_proto.proto; lengths are runs of integers,
see "Run Length Encoding" of https://orc.apache.org/specification/ORCv1/.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.formats.bytestream import signed, unsigned
from hive_bitmap.core.formats.orc_tail import (
    DAMAGED,
    MOST_FOOTER_BYTES,
    OrcTail,
    damaged_if_undecodable,
    decompressed,
    numbers_of,
    proto_fields,
)
from hive_bitmap.errors import Undecodable

# Kinds of streams: PRESENT, DATA, LENGTH, DICTIONARY_DATA, SECONDARY; ROW_INDEX, BLOOM_FILTER, BLOOM_FILTER_UTF8.
_PRESENT, _DATA, _LENGTH, _DICTIONARY, _SECONDARY = 0, 1, 2, 3, 5
_INDEX_STREAMS = (6, 7, 8)
_STREAMS_OF_KIND = {  # the streams of a column by the kind of its type, besides PRESENT
    **dict.fromkeys((0, 1, 2, 3, 4, 5, 6, 15), (_DATA,)),  # BOOLEAN .. DOUBLE, DATE
    **dict.fromkeys((7, 16, 17), (_DATA, _LENGTH, _DICTIONARY)),  # STRING, VARCHAR, CHAR
    8: (_DATA, _LENGTH),  # BINARY
    **dict.fromkeys((9, 14, 18), (_DATA, _SECONDARY)),  # TIMESTAMP, DECIMAL, TIMESTAMP_INSTANT
    **dict.fromkeys((10, 11), (_LENGTH,)),  # LIST, MAP
    12: (),  # STRUCT
    13: (_DATA,),  # UNION
}
_OFFSET, _INDEX_LENGTH, _DATA_LENGTH, _STRIPE_FOOTER_LENGTH = 1, 2, 3, 4  # fields of StripeInformation
_STREAMS, _ENCODINGS = 1, 2  # of StripeFooter
_ENCODING = 1  # kind of ColumnEncoding
_STREAM_KIND, _STREAM_COLUMN, _STREAM_LENGTH = 1, 2, 3  # of Stream
_TEXTS = (7, 8, 16, 17)  # kinds of types: STRING, BINARY, VARCHAR, CHAR
_DICTIONARIES, _FIRST_VERSION = (1, 3), (0, 1)  # kinds of encodings: with a dictionary; with run-length version 1
_MOST_LENGTHS = 256 << 20  # most decompressed bytes of the lengths of a column in a stripe
MOST_TEXT_BYTES = (1 << 31) - 1  # most bytes of a column's texts in a stripe; Arrow has no larger arrays

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)  # bits of packed integers, by the code of the width
_SURE_WIDTH = 32  # most bits of a sound length

Field = tuple[int, int | bytes]  # a field of a message: its number and value


def require_sound_stripes(source: pa.NativeFile, tail: OrcTail) -> None:
    """Require that each stripe has only streams that fit the types of its columns.

    Raises Undecodable.
    """
    with damaged_if_undecodable():
        for number, stripe in enumerate(tail.stripes):
            _require_sound_stripe(source, tail, number, stripe)


def require_sound_lengths(source: pa.NativeFile, tail: OrcTail, block: int, positions: Collection[int]) -> None:
    """Require that the lengths of texts in a stripe are possible.

    No length may be negative, and the sum of the lengths must not be too large. The lengths are in the streams of the
    stripe. `block` is the position of the stripe in the file. `positions` are the positions of the top-level columns to
    check. Raises Undecodable.
    """
    texts = [tail.top[position] for position in positions if tail.kinds[tail.top[position]] in _TEXTS]
    if not texts:
        return
    stripe = tail.stripes[block]
    with damaged_if_undecodable():
        fields = _stripe_footer(source, tail, stripe)
        encodings = [numbers_of(message).get(_ENCODING, 0) for field, message in fields if field == _ENCODINGS]
        places, at = dict[tuple[int, int], tuple[int, int]](), stripe.get(_OFFSET, 0)
        for kind, column, length in _streams(fields):
            places[kind, column] = length, at
            at += length
        for column in texts:
            length, at = places.get((_LENGTH, column), (0, 0))
            stored = source.read_at(length, at)
            lengths = decompressed(stored, tail.codec, _MOST_LENGTHS, f"the lengths of texts in stripe {block}")
            content = _DICTIONARY if encodings[column] in _DICTIONARIES else _DATA
            most = MOST_TEXT_BYTES if tail.codec else places.get((content, column), (0, 0))[0]
            if not are_sound(lengths, most, first_version=encodings[column] in _FIRST_VERSION):
                raise Undecodable(f"the lengths of texts in stripe {block} are damaged")


def are_sound(lengths: bytes, most: int, *, first_version: bool) -> bool:
    """Return whether no encoded length is negative, and their sum is at most `most`.

    `lengths` has the encoded bytes. With `first_version`, the encoding is version 1 of ORC's run-length encoding,
    otherwise version 2. The result is false if a run is cut off.
    """
    try:
        if first_version:
            return _total_of_first_version(lengths) <= most
        return _total(lengths, exact=False) <= most or _total(lengths, exact=True) <= most
    except (_Negative, IndexError, Undecodable):
        return False


class _Negative(Exception):
    """A length that is negative, or takes more bits than a sound length."""


def _total(data: bytes, *, exact: bool) -> int:
    """Return the sum of integers in version 2 of ORC's run-length encoding.

    Unless `exact`, the result is an upper bound: the integers of DIRECT runs are not decoded, and each is replaced by 2
    to the power of its width in bits. Raises _Negative, and IndexError if the last run is cut off.
    """
    at = total = 0
    while at < len(data):
        head = data[at]
        if head < 64:  # SHORT_REPEAT
            end = at + 2 + (head >> 3)
            total += int.from_bytes(_slice(data, at + 1, end), "big") * ((head & 7) + 3)
            at = end
            continue
        width, count = _WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1
        if head < 128:  # DIRECT
            end = at + 2 + _bytes_of(width, count)
            if exact:
                total += int(_packed(data, at + 2, end, width, count).sum())
            elif width > _SURE_WIDTH:
                raise _Negative
            else:
                total += count << width
        elif head < 192:  # PATCHED_BASE
            values, end = _patched(data, at, width, count)
            total += sum(values)
        else:  # DELTA
            values, end = _deltas(data, at, width if head & 62 else 0, count)
            total += sum(values)
        at = end
    if at > len(data):
        raise IndexError
    return total


def _patched(data: bytes, at: int, width: int, count: int) -> tuple[list[int], int]:
    """Decode a run of PATCHED_BASE, which begins at data[at].

    The run has `count` integers of `width` bits before the patches are applied. Return the integers, and the position
    after the run. Raises _Negative.
    """
    third, fourth = data[at + 2], data[at + 3]
    base_bytes, patch_width, gap_width, patches = (third >> 5) + 1, _WIDTHS[third & 31], (fourth >> 5) + 1, fourth & 31
    base_at = at + 4
    base = int.from_bytes(_slice(data, base_at, base_at + base_bytes), "big")
    if base >> (8 * base_bytes - 1):  # the sign
        raise _Negative
    start = base_at + base_bytes
    middle = start + _bytes_of(width, count)
    values = _packed(data, start, middle, width, count).tolist()
    entry_width = next((bits for bits in _WIDTHS if bits >= patch_width + gap_width), 64)
    end = middle + _bytes_of(entry_width, patches)
    place = 0
    for entry in _packed(data, middle, end, entry_width, patches, widest=64).tolist():
        place += entry >> patch_width
        values[place] |= (entry & ((1 << patch_width) - 1)) << width
    return [base + value for value in values], end


def _deltas(data: bytes, at: int, width: int, count: int) -> tuple[list[int], int]:
    """Decode a run of DELTA, which begins at data[at].

    The run has `count` integers; `width` is the number of bits of a delta. Return the integers, and the position after
    the run. Raises _Negative.
    """
    base, start = unsigned(data, at + 2)
    first, start = signed(data, start)
    others = max(count - 2, 0)
    end = start + _bytes_of(width, others)
    steps = _packed(data, start, end, width, others).tolist() if width else [abs(first)] * others
    values = [base, base + first][:count]
    for step in steps:
        values.append(values[-1] + (step if first >= 0 else -step))
    if min(values) < 0:
        raise _Negative
    return values, end


def _bytes_of(width: int, count: int) -> int:
    """Return the number of bytes that `count` packed integers of `width` bits take."""
    return (count * width + 7) // 8


def _packed(
    data: bytes, start: int, end: int, width: int, count: int, widest: int = _SURE_WIDTH
) -> npt.NDArray[np.uint64]:
    """Return the `count` integers of `width` bits in data[start:end].

    The integers are packed from the highest bit. Raises _Negative if the integers have more than `widest` bits, because
    sound lengths take no more bits.
    """
    if width > widest:
        raise _Negative
    bits = np.unpackbits(np.frombuffer(_slice(data, start, end), np.uint8))[: count * width].reshape(count, width)
    padded = np.zeros((count, 64), np.uint8)
    padded[:, 64 - width :] = bits
    return np.packbits(padded, axis=1).view(">u8").ravel().astype(np.uint64)


def _slice(data: bytes, start: int, end: int) -> bytes:
    """Return data[start:end]; raise IndexError if the data end before `end`."""
    if end > len(data):
        raise IndexError
    return data[start:end]


def _total_of_first_version(data: bytes) -> int:
    """Return the sum of integers in version 1 of ORC's run-length encoding.

    Raises _Negative, and IndexError if the last run is cut off.
    """
    at = total = 0
    while at < len(data):
        control = data[at]
        if control < 128:  # a run
            count, delta = control + 3, (data[at + 1] ^ 128) - 128
            base, at = unsigned(data, at + 2)
            if base + delta * (count - 1) < 0:
                raise _Negative
            total += count * base + delta * (count * (count - 1) // 2)
            continue
        literals = data[at + 1 : at + 257 - control]
        at += 1
        if len(literals) == 256 - control and max(literals) < 128:  # each takes a byte
            total, at = total + sum(literals), at + len(literals)
            continue
        for _ in range(256 - control):
            number, at = unsigned(data, at)
            total += number
    return total


def _streams(footer: Sequence[Field]) -> Iterator[tuple[int, int, int]]:
    """Yield the kind, column and length of each stream of a stripe.

    The lengths are in bytes. `footer` has the fields of the stripe's footer.
    """
    for stream in [numbers_of(message) for field, message in footer if field == _STREAMS]:
        yield stream.get(_STREAM_KIND, 0), stream.get(_STREAM_COLUMN, 0), stream.get(_STREAM_LENGTH, 0)


def _stripe_footer(source: pa.NativeFile, tail: OrcTail, stripe: Mapping[int, int]) -> list[Field]:
    """Return the fields of the footer of a stripe.

    `stripe` has the fields of the StripeInformation of the stripe, by field number. Raises Undecodable.
    """
    size = stripe.get(_STRIPE_FOOTER_LENGTH, 0)
    at = stripe.get(_OFFSET, 0) + stripe.get(_INDEX_LENGTH, 0) + stripe.get(_DATA_LENGTH, 0)
    if size > MOST_FOOTER_BYTES or at + size > source.size():
        raise Undecodable(DAMAGED)
    return list(proto_fields(decompressed(source.read_at(size, at), tail.codec)))


def _require_sound_stripe(source: pa.NativeFile, tail: OrcTail, number: int, stripe: Mapping[int, int]) -> None:
    """Require that a stripe lists only streams that fit the columns' types.

    `number` is the position of the stripe in the file. `stripe` has the fields of its StripeInformation, by field
    number. Raises Undecodable.
    """
    wrong = Undecodable(f"the footer of stripe {number} lists streams that its columns cannot have")
    lengths = stripe.get(_INDEX_LENGTH, 0), stripe.get(_DATA_LENGTH, 0)
    fields = _stripe_footer(source, tail, stripe)
    if sum(field == _ENCODINGS for field, _ in fields) != len(tail.kinds):
        raise wrong
    seen: set[tuple[int, int]] = set()
    bytes_of = [0, 0]  # of indexes, of data
    for kind, column, length in _streams(fields):
        is_index = kind in _INDEX_STREAMS
        if (kind, column) in seen or column >= len(tail.kinds) or (is_index and bytes_of[1]):
            raise wrong
        if not is_index and kind not in (_PRESENT, *_STREAMS_OF_KIND.get(tail.kinds[column], ())):
            raise wrong
        seen.add((kind, column))
        bytes_of[not is_index] += length
    if tuple(bytes_of) != lengths:
        raise wrong
