"""Write shards, which are the Parquet files of an index table.

Rows are sorted by key, then base file, then offset. A key or a range of keys is found through the statistics of the row
groups. Row groups are small, because the bytes of their bitmaps and of their keys are limited. Float keys have no
statistics, because the statistics of Parquet leave NaN out. Each shard with bitmaps has a cardinality file in the
folder `_manifest`: a Parquet file whose only column has the cardinality of each bitmap. Counts of rows are computed
from these cardinalities.

While rows are collected and sorted, they are packed: the paths of base files are dictionary-encoded. Packed rows take
less memory than stored rows. When a row group is written, its rows are unpacked.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.bitmaps import ragged
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index import checksums, generation_names, shard
from hive_bitmap.core.index.aggregate_columns import merged
from hive_bitmap.core.index.definition import BUCKET, OFFSET, OFFSETS, Definition, value_columns
from hive_bitmap.core.parallel import map_parallel

ROW_GROUP_BYTES = 1 << 20  # most bytes of bitmaps before compression: a lookup decodes at least one row group
ROW_GROUP_KEY_BYTES = 4 << 20  # most bytes of distinct keys: long keys are as slow to decode as bitmaps
ROW_GROUP_ROWS = 128 << 10
CARDINALITY = pa.field(
    "_cardinality", pa.int32()
)  # a column of rows in memory, which is stored in the cardinality file
ROW_BYTES = 24  # rough size of a row without its bitmap


def packed(rows: pa.Table) -> pa.Table:
    """Pack index rows: dictionary-encode their paths.

    Packed rows are returned unchanged.
    """
    at = rows.schema.get_field_index(BUCKET.name)
    if pa.types.is_dictionary(rows.schema.field(at).type):
        return rows
    return rows.set_column(at, BUCKET.name, pc.dictionary_encode(rows[BUCKET.name]))


def unpacked(rows: pa.Table) -> pa.Table:
    """Convert packed index rows to the stored form.

    Rows that are not packed are returned unchanged.
    """
    at = rows.schema.get_field_index(BUCKET.name)
    if not pa.types.is_dictionary(rows.schema.field(at).type):
        return rows
    return rows.set_column(at, BUCKET, rows[BUCKET.name].cast(BUCKET.type))


def bitmap_bytes(rows: pa.Table, definition: Definition) -> npt.NDArray[np.int64]:
    """Return the bytes of the bitmaps of each row before compression."""
    total = np.zeros(rows.num_rows, np.int64)
    for field in definition.bitmap_fields:
        if pa.types.is_list(field.type):
            total += pc.list_value_length(rows[field.name]).to_numpy() * (field.type.value_type.bit_width // 8)
        else:
            total += pc.binary_length(rows[field.name]).to_numpy()
    return total


@dataclass(frozen=True)
class Written:
    """The result of writing a shard.

    `size` and `cardinality_size` (0 without bitmaps) are in bytes; `sums` has the checksums by file name.
    """

    size: int
    cardinality_size: int
    sums: dict[str, list[int]]


NOTHING = Written(0, 0, {})


def sort(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Sort index rows by key, NULL last.

    `keys` are the names of the key columns, the most significant first. The sort is stable: the rows must already be in
    file and offset order.
    """
    if rows.num_rows == 0:
        return rows
    order: npt.NDArray[np.int64] = np.arange(rows.num_rows)
    for key in reversed(keys):
        order = order[np.argsort(_ranks(rows[key])[order], kind="stable")]
    indices = pa.array(order)
    columns = [ragged.take(column.combine_chunks(), indices) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def compact(rows: pa.Table, definition: Definition) -> pa.Table:
    """Combine sorted rows into rows of a COMPACT or AGGREGATE index.

    There is one row for each key and file. The columns are the keys, `_bucketname`, `_offsets` and the aggregates.
    `_offsets` (list<int64>) has the offsets of the blocks that hold the key, ascending.
    """
    keys = definition.column_names
    changed = np.zeros(rows.num_rows, bool)
    changed[:1] = True
    for name in (*keys, BUCKET.name):
        ranks = _ranks(rows[name])
        changed[1:] |= ranks[1:] != ranks[:-1]
    first = np.flatnonzero(changed)
    ends = np.append(first, rows.num_rows).astype(np.int32)
    offsets = pa.ListArray.from_arrays(pa.array(ends), rows[OFFSET.name].combine_chunks(), type=OFFSETS.type)
    combined = rows.select([*keys, BUCKET.name]).take(pa.array(first)).append_column(OFFSETS, offsets)
    partials = merged(definition.aggregates, rows, np.cumsum(changed) - 1)
    for name, partial_aggregates in zip(partials.column_names, partials.columns, strict=True):
        combined = combined.append_column(partials.schema.field(name), partial_aggregates)
    return combined


@dataclass(frozen=True)
class Partitions:
    """The partition columns of the base files of a shard.

    `values` has a row of typed values for each of the `paths`.
    """

    paths: pa.Array
    values: pa.Table

    def added_to(self, rows: pa.Table) -> pa.Table:
        """Append the partition columns to index rows."""
        buckets = rows[BUCKET.name]
        if not pa.types.is_dictionary(buckets.type):
            buckets = pc.dictionary_encode(buckets)
        for field in self.values.schema:
            chunks = [
                self.values[field.name]
                .combine_chunks()
                .take(pc.index_in(chunk.dictionary, value_set=self.paths).take(chunk.indices))
                for chunk in buckets.chunks
            ]
            rows = rows.append_column(field, pa.chunked_array(chunks, field.type))
        return rows


def write(path: str, rows: pa.Table, definition: Definition, partitions: Partitions | None = None) -> Written:
    """Write sorted rows as the shard `path`, and their cardinalities as a file.

    The cardinality file is written only if the rows have the column CARDINALITY. The rows may be packed (`packed`).
    `partitions` are the partition columns of the base files; None if the table has no partitions. The written files are
    private until `let_read`. Raise OSError or StoreError.
    """
    cardinalities = cardinalities_path(path)
    has_cardinalities = CARDINALITY.name in rows.column_names
    stored = rows.drop_columns([CARDINALITY.name]) if has_cardinalities else rows
    writes = [partial(_write_shard, path, stored, definition, partitions)]
    if has_cardinalities:
        writes.append(partial(_write_cardinalities, cardinalities, rows))
    sizes_and_sums = map_parallel(lambda write: write(), writes, stores.parallel(path))
    names = [file.rpartition("/")[2] for file in (path, cardinalities)]
    sums = {name: sums for name, (_, sums) in zip(names, sizes_and_sums, strict=False)}
    return Written(sizes_and_sums[0][0], sizes_and_sums[1][0] if has_cardinalities else 0, sums)


def let_read(path: str, counterparts: Sequence[str]) -> None:
    """Make a shard readable for users who may read all its sources.

    `path` is the shard, and `counterparts` are the sources: the files from which the shard was made. The cardinality
    file of the shard gets the same access. In a store without permissions, nothing changes.
    """
    access, cardinalities = stores.access_of(counterparts, path.rpartition("/")[0]), cardinalities_path(path)
    if access is not None:
        for file in (path, cardinalities) if stores.exists(cardinalities) else (path,):
            stores.set_access(file, access)


def _write_cardinalities(path: str, rows: pa.Table) -> tuple[int, list[int]]:
    """Write a cardinality file; return its size in bytes and its checksum."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows.select([CARDINALITY.name]), sink, compression="zstd", store_schema=False)
    content = sink.getvalue()
    stores.make_folder(path.rpartition("/")[0])
    with stores.open_output(path, private=True) as file:
        file.write(content)
    return content.size, [zlib.crc32(content)]


def _write_shard(
    path: str, rows: pa.Table, definition: Definition, partitions: Partitions | None
) -> tuple[int, list[int]]:
    """Write a shard; return its size in bytes and its checksums.

    `partitions` are the partition columns of the base files; None if the table has no partitions. For a remote store,
    the shard is assembled in memory, so that it need not be read back to compute the checksums.
    """
    if not stores.is_local(path):
        memory = pa.BufferOutputStream()
        _write(memory, rows, definition, partitions)
        content = memory.getvalue()
        with stores.open_output(path, private=True) as sink:
            sink.write(content)
        return content.size, checksums.of_shard(pa.BufferReader(content))
    with stores.open_output(path, private=True) as sink:
        _write(sink, rows, definition, partitions)
    with stores.open_input(path) as source:
        return source.size(), checksums.of_shard(source)


def _write(sink: pa.NativeFile, rows: pa.Table, definition: Definition, partitions: Partitions | None) -> None:
    def stored(part: pa.Table) -> pa.Table:
        columns = unpacked(part)
        return columns if partitions is None else partitions.added_to(columns)

    schema = stored(rows.slice(0, 0)).schema
    with pq.ParquetWriter(sink, schema, **_writer_options(definition)) as writer:
        for start, end in _row_groups(rows, definition):
            writer.write_table(stored(rows.slice(start, end - start)), row_group_size=max(end - start, 1))


def cardinalities_path(path: str) -> str:
    """Return the path of the cardinality file of the shard `path`."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{checksums.FOLDER}/{name.removesuffix('.parquet')}.cardinalities"


def _ranks(values: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the dense rank of each value, NULL last.

    Equal values have equal ranks. Ranks are uint16 if 16 bits are enough, because numpy sorts such small integers by
    radix.
    """
    encoded = pc.dictionary_encode(values.combine_chunks(), null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.uint16 if len(order) <= 1 << 16 else np.uint32)
    rank[order] = np.arange(len(order))
    return rank[encoded.indices.to_numpy(zero_copy_only=False)]


def _writer_options(definition: Definition) -> dict[str, Any]:
    values = value_columns(definition)
    keys = (*definition.column_names, *(column.name for column in values))
    lists = [f"{field.name}.list.element" for field in definition.bitmap_fields if pa.types.is_list(field.type)]
    floats = {c.name for c in (*definition.columns, *values) if c.type in ("float", "double")}
    return {
        "compression": definition.compression,
        "use_dictionary": [*keys, BUCKET.name, OFFSET.name, *lists],
        "write_statistics": [name for name in (*keys, BUCKET.name, OFFSET.name) if name not in floats],
        "write_page_checksum": True,
        "use_deprecated_int96_timestamps": any(c.type == "timestamp" for c in definition.columns),
        "store_schema": False,
    }


def _row_groups(rows: pa.Table, definition: Definition) -> Iterator[tuple[int, int]]:
    """Yield the range (start, end) of rows of each row group.

    A row group has at most ROW_GROUP_ROWS rows, about ROW_GROUP_BYTES bytes of rows, and about ROW_GROUP_KEY_BYTES
    bytes of keys. `rows` are sorted by key.
    """
    if rows.num_rows == 0:
        return
    weight = ROW_BYTES + bitmap_bytes(rows, definition)
    if OFFSETS.name in rows.column_names:
        weight += pc.list_value_length(rows[OFFSETS.name]).to_numpy() * (OFFSETS.type.value_type.bit_width // 8)
    group = np.cumsum(weight) // ROW_GROUP_BYTES
    for name in definition.column_names:
        group = np.maximum(group, np.cumsum(_new_bytes(rows[name])) // ROW_GROUP_KEY_BYTES)
    group = np.maximum(group, np.arange(rows.num_rows) // ROW_GROUP_ROWS)
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    yield from zip(starts.tolist(), [*starts[1:].tolist(), rows.num_rows], strict=True)


def _new_bytes(keys: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return how many bytes each value adds to a column's distinct values.

    `keys` has the values of one key column, in the order of the rows. The result is the length of a text or binary
    value, 0 for a value that is equal to the preceding value, and 0 for values of other types. If all values have at
    most ROW_GROUP_KEY_BYTES together, equal values are not looked for, and the result is the length of each value.
    """

    if not (pa.types.is_string(keys.type) or pa.types.is_binary(keys.type)):
        return np.zeros(len(keys), np.int64)
    lengths = pc.fill_null(pc.binary_length(keys), 0).to_numpy().astype(np.int64)
    if int(lengths.sum()) <= ROW_GROUP_KEY_BYTES:
        return lengths
    same = pc.fill_null(pc.equal(keys[1:], keys[:-1]), False).to_numpy(zero_copy_only=False).astype(bool)
    lengths[1:][same] = 0
    return lengths


def row_schema(definition: Definition) -> pa.Schema:
    """Return the schema of index rows.

    There is one index row for each key and block. The columns are the keys, `_bucketname`, `_offset`, the bitmaps and
    the aggregates. COMPACT and AGGREGATE indexes have no bitmaps, and their shards have `compact_schema` instead.
    """
    fields = (*definition.bitmap_fields, *definition.aggregate_fields)
    return pa.schema([*key_fields(definition), BUCKET, OFFSET, *fields])


def built_schema(definition: Definition) -> pa.Schema:
    """Return `row_schema` with the column CARDINALITY as the last column."""
    return row_schema(definition).append(shard.CARDINALITY)


def compact_schema(definition: Definition) -> pa.Schema:
    """Return the schema of a COMPACT or AGGREGATE shard.

    Such a shard has one row for each key and file. The columns are the keys, `_bucketname`, `_offsets` and the
    aggregates.
    """
    return pa.schema([*key_fields(definition), BUCKET, OFFSETS, *definition.aggregate_fields])


def key_fields(definition: Definition) -> list[pa.Field]:
    """Return the key columns of an index table as Arrow fields."""
    return [pa.field(c.name, arrow_type(KeyColumn(c.name, c.type))) for c in definition.columns]


def value_fields(definition: Definition) -> list[pa.Field]:
    """Return the `value_columns` of an index table as Arrow fields."""
    return [pa.field(c.name, arrow_type(KeyColumn(c.name, c.type))) for c in value_columns(definition)]


def shard_name(folder: str) -> str:
    """Return a unique file name for a new shard.

    No other task attempt uses the name. The shard will be in `folder`. If `folder` is a generation, the hex digits of
    the name begin with the token of the build (`generation_names.build_token`). `deletion` recognises the shards of a
    build by this token.
    """
    token = generation_names.build_token(folder) if generation_names.is_generation(folder) else ""
    return f"part-{(token + uuid.uuid4().hex)[:32]}.parquet"


def key_columns(columns: Iterable[Column], schema: Sequence[Column], time_zone: str) -> list[KeyColumn]:
    """Convert columns of a base table to the KeyColumns that `Format` takes.

    `schema` has all data columns of the table, which determine the position of each KeyColumn. `time_zone` is the time
    zone of Spark's JVM; "" if it is unknown.
    """
    positions = {column.name: position for position, column in enumerate(schema)}
    return [
        KeyColumn(column.name, column.type, time_zone, positions[column.name], column.file_name, column.field_id)
        for column in columns
    ]
