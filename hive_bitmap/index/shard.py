"""A shard: one Parquet file of an index table, its rows sorted by key, then file, then offset.

A key or a range of keys is found through the statistics of its row groups, which are kept small by the bytes of their
bitmaps: that is the lookup in log n that a B+ tree would give. Float keys have no statistics (NaN is left out of them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.errors import CorruptIndex
from hive_bitmap.formats import storage
from hive_bitmap.index import checksums
from hive_bitmap.index.definition import BUCKET, OFFSET, OFFSETS, Definition

Flags = npt.NDArray[np.bool_]
ROW_GROUP_BYTES = 1 << 20  # of bitmaps, before compression: what a lookup of one key decodes at least
ROW_GROUP_ROWS = 128 << 10
READ_AT_ONCE = 16  # row groups: what a lookup holds in memory
ROW_BYTES = 24  # what a row takes besides its bitmap
KEPT_ROWS = 1 << 18  # the keys of a shard with no more rows are kept in memory, those of the last KEPT_SHARDS shards
KEPT_SHARDS = 128


@dataclass(frozen=True)
class KeyStats:
    """The smallest and largest key of a row group, None where the statistics do not say, and whether NULL may occur."""

    low: Any
    high: Any
    nulls: bool


def sort(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows of an index in the order of a shard; they come in the order of file and offset."""
    if rows.num_rows == 0:
        return rows
    order: npt.NDArray[np.int64] = np.arange(rows.num_rows)
    for key in reversed(keys):
        order = order[np.argsort(_ranks(rows[key])[order], kind="stable")]
    return rows.take(pa.array(order))


def compact(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The COMPACT form of sorted rows: one row a key and file, with the array of its offsets."""
    changed = np.zeros(rows.num_rows, bool)
    changed[:1] = True
    for name in (*keys, BUCKET.name):
        ranks = _ranks(rows[name])
        changed[1:] |= ranks[1:] != ranks[:-1]
    first = np.flatnonzero(changed)
    ends = np.append(first, rows.num_rows).astype(np.int32)
    offsets = pa.ListArray.from_arrays(pa.array(ends), rows[OFFSET.name].combine_chunks(), type=OFFSETS.type)
    return rows.select([*keys, BUCKET.name]).take(pa.array(first)).append_column(OFFSETS, offsets)


def write(path: str, rows: pa.Table, definition: Definition) -> int:
    """Write sorted rows as a shard; returns its size in bytes."""
    with storage.open_output(path) as sink, pq.ParquetWriter(sink, rows.schema, **_layout(definition)) as writer:
        for start, end in _row_groups(rows):
            writer.write_table(rows.slice(start, end - start), row_group_size=max(end - start, 1))
    return storage.status(path).size


def read(
    path: str,
    size: int,
    columns: Sequence[str],
    key: pa.Field,
    wanted: Callable[[KeyStats], bool],
    matches: Callable[[pa.Array], Flags],
) -> Iterator[pa.Table]:
    """The rows whose value of the field `key` matches, in tables of a few row groups.

    `wanted` says whether a row group with these statistics may hold a match; `matches` is asked once for all distinct
    keys of the row groups that are left. Raises CorruptIndex for a shard that is missing, truncated or damaged.
    """
    try:
        yield from _read(path, size, columns, key, wanted, matches)
    except (OSError, pa.ArrowException) as e:
        raise CorruptIndex(f"shard {path} cannot be read: {e}") from e


def distinct(path: str, size: int, key: pa.Field) -> pa.Array:
    """The distinct values of one key column of a shard. Raises CorruptIndex."""
    try:
        with _open(path, size) as file:
            return pc.unique(file.read(columns=[key.name])[key.name].cast(key.type))
    except (OSError, pa.ArrowException) as e:
        raise CorruptIndex(f"shard {path} cannot be read: {e}") from e


def _read(
    path: str,
    size: int,
    columns: Sequence[str],
    key: pa.Field,
    wanted: Callable[[KeyStats], bool],
    matches: Callable[[pa.Array], Flags],
) -> Iterator[pa.Table]:
    metadata = _metadata(path, size)
    groups = [g for g in range(metadata.num_row_groups) if wanted(_stats(metadata, g, key.name))]
    if not groups:
        return
    lengths = np.array([metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)])
    with _open(path, size) as file:
        if metadata.num_rows <= KEPT_ROWS:
            found = _flags(_kept_keys(path, size, key), matches)
            ends = np.cumsum(lengths)[groups]
        else:
            found = _flags(_read_keys(file, groups, key), matches)
            ends = np.cumsum(lengths[groups])
        parts = ((group, found[end - lengths[group] : end]) for group, end in zip(groups, ends, strict=True))
        hit = [(group, hits) for group, hits in parts if hits.any()]
        for start in range(0, len(hit), READ_AT_ONCE):
            some = hit[start : start + READ_AT_ONCE]
            hits = np.concatenate([flags for _, flags in some])
            rows = file.read_row_groups([group for group, _ in some], columns=list(columns))
            yield rows if hits.all() else rows.filter(pa.array(hits))


def _flags(keys: pa.DictionaryArray, matches: Callable[[pa.Array], Flags]) -> Flags:
    flags: Flags = matches(keys.dictionary)[keys.indices.to_numpy(zero_copy_only=False)]
    return flags


@lru_cache(maxsize=KEPT_SHARDS)
def _kept_keys(path: str, size: int, key: pa.Field) -> pa.DictionaryArray:
    """All keys of a shard; one never changes, so they are kept."""
    with _open(path, size) as file:
        return _read_keys(file, range(file.num_row_groups), key)


def _read_keys(file: pq.ParquetFile, groups: Sequence[int], key: pa.Field) -> pa.DictionaryArray:
    keys = file.read_row_groups(list(groups), columns=[key.name])[key.name].cast(key.type).combine_chunks()
    encoded = pc.dictionary_encode(keys, null_encoding="encode")
    return encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded


@lru_cache(maxsize=4096)
def _metadata(path: str, size: int) -> pq.FileMetaData:
    """A shard's footer; one never changes, so it is kept."""
    with storage.open_input(path) as source:
        if source.size() != size:
            raise OSError(f"it has {source.size()} bytes instead of {size}")
        return checksums.footer_of(source, _sums(path))


@contextmanager
def _open(path: str, size: int) -> Iterator[pq.ParquetFile]:
    metadata = _metadata(path, size)
    with storage.open_input(path) as source:
        yield open_checked(source, metadata, _sums(path))


def open_checked(source: pa.NativeFile, metadata: pq.FileMetaData, sums: Sequence[int] | None) -> pq.ParquetFile:
    """A shard whose column chunks are compared with their sums; so each is read by itself, not with its neighbours."""
    return pq.ParquetFile(
        checksums.chunks_of(source, metadata, sums),
        metadata=metadata,
        pre_buffer=False,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",
    )


def _sums(path: str) -> Sequence[int] | None:
    folder, _, name = path.rpartition("/")
    return checksums.read(folder).get(name)


def _stats(metadata: pq.FileMetaData, group: int, key: str) -> KeyStats:
    column = metadata.row_group(group).column(metadata.schema.names.index(key))
    stats = column.statistics if column.is_stats_set else None
    if stats is None or not stats.has_null_count:
        return KeyStats(None, None, True)
    low, high = (stats.min, stats.max) if stats.has_min_max else (None, None)
    return KeyStats(low, high, stats.null_count > 0)


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


def _row_groups(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Where to cut: after each ROW_GROUP_BYTES of bitmaps or ROW_GROUP_ROWS rows."""
    if rows.num_rows == 0:
        return
    weight = np.full(rows.num_rows, ROW_BYTES, np.int64)
    for name in rows.column_names:
        if name == "_bitmaps" and pa.types.is_binary(rows.schema.field(name).type):
            weight += pc.binary_length(rows[name]).to_numpy()
        elif pa.types.is_list(rows.schema.field(name).type):
            weight += pc.list_value_length(rows[name]).to_numpy() * (
                rows.schema.field(name).type.value_type.bit_width // 8
            )
    group = np.cumsum(weight) // ROW_GROUP_BYTES
    group = np.maximum(group, np.arange(rows.num_rows) // ROW_GROUP_ROWS)
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    yield from zip(starts.tolist(), [*starts[1:].tolist(), rows.num_rows], strict=True)
