"""A shard: one Parquet file of an index table, its rows sorted by key, then file, then offset.

A key or a range of keys is found through the statistics of its row groups, which are kept small by the bytes of their
bitmaps: that is the lookup in log n that a B+ tree would give. Float keys have no statistics (NaN is left out of them).
Beside it, in `_manifest`, a Parquet file of one column holds the cardinality of each of its bitmaps, for counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap import stores
from hive_bitmap.bitmaps import ragged
from hive_bitmap.index import checksums
from hive_bitmap.index.definition import BUCKET, OFFSET, OFFSETS, Definition
from hive_bitmap.parallel import each

ROW_GROUP_BYTES = 1 << 20  # of bitmaps, before compression: what a lookup of one key decodes at least
ROW_GROUP_ROWS = 128 << 10
CARDINALITY = pa.field("_cardinality", pa.int32())  # of a bitmap; it travels beside it until both are written
ROW_BYTES = 24  # what a row takes besides its bitmap


@dataclass(frozen=True)
class Written:
    """What a shard takes: bytes of itself and of its cardinalities (0 without bitmaps), and checksums by file name."""

    size: int
    cardinality_size: int
    sums: dict[str, list[int]]


NOTHING = Written(0, 0, {})


def sort(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows of an index in the order of a shard: by key, NULL last, then by file and offset, as they came.

    The schema stays as it is.
    """
    if rows.num_rows == 0:
        return rows
    order: npt.NDArray[np.int64] = np.arange(rows.num_rows)
    for key in reversed(keys):
        order = order[np.argsort(_ranks(rows[key])[order], kind="stable")]
    places = pa.array(order)
    columns = [ragged.take(column.combine_chunks(), places) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def compact(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The COMPACT form of sorted rows: a row a key and file, in the columns `keys`, `_bucketname` and `_offsets`.

    `_offsets` is a list of int64, the offsets of the blocks that hold the key, ascending.
    """
    changed = np.zeros(rows.num_rows, bool)
    changed[:1] = True
    for name in (*keys, BUCKET.name):
        ranks = _ranks(rows[name])
        changed[1:] |= ranks[1:] != ranks[:-1]
    first = np.flatnonzero(changed)
    ends = np.append(first, rows.num_rows).astype(np.int32)
    offsets = pa.ListArray.from_arrays(pa.array(ends), rows[OFFSET.name].combine_chunks(), type=OFFSETS.type)
    return rows.select([*keys, BUCKET.name]).take(pa.array(first)).append_column(OFFSETS, offsets)


def write(path: str, rows: pa.Table, definition: Definition) -> Written:
    """Write sorted rows as the shard `path`, and their cardinalities (int32) in a file beside it, if they have any.

    The rows of COMPACT have none. Raises OSError, StoreError.
    """
    beside = cardinalities_path(path)
    counted = CARDINALITY.name in rows.column_names
    stored = rows.drop_columns([CARDINALITY.name]) if counted else rows
    writing = [partial(_written, path, stored, definition)]
    if counted:
        writing.append(partial(_cardinalities_written, beside, rows))
    found = each(lambda write: write(), writing, stores.parallel(path))
    names = [one.rpartition("/")[2] for one in (path, beside)]
    sums = {name: sums for name, (_, sums) in zip(names, found, strict=False)}
    return Written(found[0][0], found[1][0] if counted else 0, sums)


def _cardinalities_written(path: str, rows: pa.Table) -> tuple[int, list[int]]:
    """The bytes of a new file of cardinalities and its sum."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows.select([CARDINALITY.name]), sink, compression="zstd", store_schema=False)
    content = sink.getvalue()
    stores.make_folder(path.rpartition("/")[0])
    with stores.open_output(path) as file:
        file.write(content)
    return content.size, [zlib.crc32(content)]


def _written(path: str, rows: pa.Table, definition: Definition) -> tuple[int, list[int]]:
    """The bytes of a new shard and its sums; far from here it is made in memory, so that none of it is read back."""
    if not stores.is_local(path):
        made = pa.BufferOutputStream()
        _write(made, rows, definition)
        content = made.getvalue()
        with stores.open_output(path) as sink:
            sink.write(content)
        return content.size, checksums.of_shard(pa.BufferReader(content))
    with stores.open_output(path) as sink:
        _write(sink, rows, definition)
    with stores.open_input(path) as source:
        return source.size(), checksums.of_shard(source)


def _write(sink: pa.NativeFile, rows: pa.Table, definition: Definition) -> None:
    with pq.ParquetWriter(sink, rows.schema, **_layout(definition)) as writer:
        for start, end in _row_groups(rows, {field.name for field in definition.bitmap_fields}):
            writer.write_table(rows.slice(start, end - start), row_group_size=max(end - start, 1))


def cardinalities_path(path: str) -> str:
    """The file that holds the cardinalities of the bitmaps of a shard."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{checksums.FOLDER}/{name.removesuffix('.parquet')}.cardinalities"


def _ranks(values: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Small ints in the order of the values (NULL last), equal where the values are: they sort by radix."""
    encoded = pc.dictionary_encode(values.combine_chunks(), null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.uint16 if len(order) <= 1 << 16 else np.uint32)
    rank[order] = np.arange(len(order))
    return rank[encoded.indices.to_numpy(zero_copy_only=False)]


def _layout(definition: Definition) -> dict[str, Any]:
    keys = definition.column_names
    floats = {c.name for c in definition.columns if c.type in ("float", "double")}
    return {
        "compression": definition.compression,
        "use_dictionary": [*keys, BUCKET.name, OFFSET.name, "_gap_lengths.list.element"],
        "write_statistics": [name for name in (*keys, BUCKET.name, OFFSET.name) if name not in floats],
        "write_page_checksum": True,
        "use_deprecated_int96_timestamps": any(c.type == "timestamp" for c in definition.columns),
        "store_schema": False,
    }


def _row_groups(rows: pa.Table, bitmaps: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where to cut: after each ROW_GROUP_BYTES of `bitmaps`, the columns of these names, or ROW_GROUP_ROWS rows."""
    if rows.num_rows == 0:
        return
    weight = np.full(rows.num_rows, ROW_BYTES, np.int64)
    for name in rows.column_names:
        if name in bitmaps and pa.types.is_binary(rows.schema.field(name).type):
            weight += pc.binary_length(rows[name]).to_numpy()
        elif pa.types.is_list(rows.schema.field(name).type):
            weight += pc.list_value_length(rows[name]).to_numpy() * (
                rows.schema.field(name).type.value_type.bit_width // 8
            )
    group = np.cumsum(weight) // ROW_GROUP_BYTES
    group = np.maximum(group, np.arange(rows.num_rows) // ROW_GROUP_ROWS)
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    yield from zip(starts.tolist(), [*starts[1:].tolist(), rows.num_rows], strict=True)
