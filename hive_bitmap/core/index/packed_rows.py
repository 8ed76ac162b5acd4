"""Pack the index rows that are collected and sorted in memory.

Packed rows take less memory than stored ones. The path of a base file is in a dictionary. Bitmaps of the encoding
plain, which take keys x rows bits, have the encoding gap. Rows are unpacked a row group at a time when they are written
(`shard.write`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.bitmaps import gap, plain, plain_as_gap
from hive_bitmap.core.index.definition import BUCKET, Definition

_MARKS, _LENGTHS = gap.FIELDS


def is_packed(definition: Definition) -> bool:
    """Return whether the bitmaps of an index are packed."""
    return definition.has_bitmaps and definition.encoding == plain.NAME


def packing(definition: Definition) -> Definition:
    """Return the definition to use while rows are held in memory.

    The encoding `plain` is replaced by `gap`.
    """
    return replace(definition, encoding=gap.NAME) if is_packed(definition) else definition


def packed(rows: pa.Table, definition: Definition) -> pa.Table:
    """Pack index rows.

    They may be packed already. Raises CorruptBitmap for a plain bitmap without a set bit.
    """
    at = rows.schema.get_field_index(BUCKET.name)
    if not pa.types.is_dictionary(rows.schema.field(at).type):
        rows = rows.set_column(at, BUCKET.name, pc.dictionary_encode(rows[BUCKET.name]))
    if is_packed(definition) and not _has_gaps(rows):
        [field] = definition.bitmap_fields
        marks, lengths = plain_as_gap.to_gap(_array(rows, field))
        at = rows.schema.get_field_index(field.name)
        rows = rows.set_column(at, _MARKS, marks).add_column(at + 1, _LENGTHS, lengths)
    return rows


def unpacked(rows: pa.Table, definition: Definition) -> pa.Table:
    """Unpack index rows to the form that is stored.

    They may have that form already.
    """
    at = rows.schema.get_field_index(BUCKET.name)
    if pa.types.is_dictionary(rows.schema.field(at).type):
        rows = rows.set_column(at, BUCKET, rows[BUCKET.name].cast(BUCKET.type))
    if is_packed(definition) and _has_gaps(rows):
        [field] = definition.bitmap_fields
        bitmaps = plain_as_gap.to_plain(_columns(rows))
        rows = rows.drop_columns([_LENGTHS.name])
        rows = rows.set_column(rows.schema.get_field_index(field.name), field, bitmaps)
    return rows


def bitmap_bytes(rows: pa.Table, definition: Definition) -> npt.NDArray[np.int64]:
    """Return the bytes of each row's stored bitmaps.

    They are counted before compression.
    """
    if is_packed(definition) and _has_gaps(rows):
        return gap.plain_sizes(_columns(rows))
    total = np.zeros(rows.num_rows, np.int64)
    for field in definition.bitmap_fields:
        if pa.types.is_list(field.type):
            total += pc.list_value_length(rows[field.name]).to_numpy() * (field.type.value_type.bit_width // 8)
        else:
            total += pc.binary_length(rows[field.name]).to_numpy()
    return total


def _has_gaps(rows: pa.Table) -> bool:
    return _LENGTHS.name in rows.column_names


def _columns(rows: pa.Table) -> list[pa.Array]:
    return [_array(rows, field) for field in gap.FIELDS]


def _array(rows: pa.Table, field: pa.Field) -> pa.Array:
    """Return a column as one array."""
    return rows[field.name].combine_chunks() if rows.num_rows else pa.array([], field.type)
