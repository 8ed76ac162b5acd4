"""Index rows as they are collected and sorted in memory: packed, so that they take less than the rows that are stored.

The path of a base file is in a dictionary. Bitmaps of the encoding plain, which take keys x rows bits, have the
encoding gap. What is written is unpacked a row group at a time (`shard.write`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.bitmaps.keybytes import KeyBytes
from hive_bitmap.core.bitmaps.ragged import (
    binary_array,
    binary_values,
    list_array,
    list_values,
    offsets_of,
    segment_sums,
)
from hive_bitmap.core.index.definition import BUCKET, Definition
from hive_bitmap.errors import CorruptBitmap

PLAIN, PACKED = "plain", "gap"  # what is packed, and as what; other encodings are as they are
_GAP = ENCODINGS[PACKED]


def is_packed(definition: Definition) -> bool:
    """Return whether the bitmaps of an index are packed."""
    return definition.has_bitmaps and definition.encoding == PLAIN


def packing(definition: Definition) -> Definition:
    """Return the definition by which the rows of an index are made that are packed."""
    return replace(definition, encoding=PACKED) if is_packed(definition) else definition


def packed(rows: pa.Table, definition: Definition) -> pa.Table:
    """Pack index rows, which may be packed already. Raise CorruptBitmap for a plain bitmap in which no row is set."""
    at = rows.schema.get_field_index(BUCKET.name)
    if not pa.types.is_dictionary(rows.schema.field(at).type):
        rows = rows.set_column(at, BUCKET.name, pc.dictionary_encode(rows[BUCKET.name]))
    if is_packed(definition) and not _has_gaps(rows):
        [field] = definition.bitmap_fields
        columns = _gaps(rows[field.name].combine_chunks() if rows.num_rows else pa.array([], field.type))
        at = rows.schema.get_field_index(field.name)
        rows = rows.set_column(at, _GAP.FIELDS[0], columns[0]).add_column(at + 1, _GAP.FIELDS[1], columns[1])
    return rows


def unpacked(rows: pa.Table, definition: Definition) -> pa.Table:
    """Return index rows as they are stored; they may be so already."""
    at = rows.schema.get_field_index(BUCKET.name)
    if pa.types.is_dictionary(rows.schema.field(at).type):
        rows = rows.set_column(at, BUCKET, rows[BUCKET.name].cast(BUCKET.type))
    if is_packed(definition) and _has_gaps(rows):
        [field] = definition.bitmap_fields
        columns = _columns(rows)
        sizes = gap_sizes(columns)
        starts = offsets_of(sizes)
        bits = np.zeros(int(starts[-1]), np.uint8)
        _GAP.decode_into(bits, columns, starts[:-1], sizes * 8)
        rows = rows.drop_columns([_GAP.FIELDS[1].name])
        rows = rows.set_column(rows.schema.get_field_index(field.name), field, binary_array(bits, starts))
    return rows


def bitmap_bytes(rows: pa.Table, definition: Definition) -> npt.NDArray[np.int64]:
    """Return how many bytes the bitmaps of each row take that are stored, before compression."""
    if is_packed(definition) and _has_gaps(rows):
        return gap_sizes(_columns(rows))
    total = np.zeros(rows.num_rows, np.int64)
    for field in definition.bitmap_fields:
        if pa.types.is_list(field.type):
            total += pc.list_value_length(rows[field.name]).to_numpy() * (field.type.value_type.bit_width // 8)
        else:
            total += pc.binary_length(rows[field.name]).to_numpy()
    return total


def gap_sizes(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Return how many bytes each bitmap of the encoding gap takes when it is decoded."""
    _, offsets = binary_values(columns[0])
    lengths, runs = list_values(columns[1])
    return np.diff(offsets) - np.diff(runs) + segment_sums(lengths.astype(np.int64), runs)


def _has_gaps(rows: pa.Table) -> bool:
    return _GAP.FIELDS[1].name in rows.column_names


def _columns(rows: pa.Table) -> list[pa.Array]:
    return [rows[field.name].combine_chunks() if rows.num_rows else pa.array([], field.type) for field in _GAP.FIELDS]


def _gaps(dense: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Encode dense bitmaps as gap, those of equal length together."""
    data, offsets = binary_values(dense)
    sizes = np.diff(offsets)
    first = np.searchsorted(np.flatnonzero(data), offsets)
    if (np.diff(first) == 0).any():
        raise CorruptBitmap("a bitmap has no row")
    if not len(sizes):
        return binary_array(data, offsets), list_array(np.zeros(0, np.int32), np.zeros(1, np.int64))
    parts = [
        _GAP.encode(_key_bytes(dense.take(pa.array(np.flatnonzero(sizes == size))), size))
        for size in np.unique(sizes).tolist()
    ]
    back = pa.array(np.argsort(np.argsort(sizes, kind="stable"), kind="stable"))
    marks, lengths = (pa.concat_arrays([part[place] for part in parts]).take(back) for place in (0, 1))
    return marks, lengths


def _key_bytes(dense: pa.Array, size: int) -> KeyBytes:
    """The non-zero bytes of dense bitmaps of this size each."""
    data, offsets = binary_values(dense)
    at = np.flatnonzero(data)
    first = np.searchsorted(at, offsets)
    position = at - np.repeat(offsets[:-1], np.diff(first))
    return KeyBytes(rows=size * 8, first=first, position=position, value=data[at])
