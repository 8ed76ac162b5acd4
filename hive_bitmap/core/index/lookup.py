"""Look up keys in a shard.

First, the keys, blocks and cardinalities of whole row groups are read. Then the bitmaps of the needed row groups are
read. These values are cached (`memory_budget`), because a shard never changes. Functions that stream a whole shard
(`distinct`, `counted_keys`) do not cache its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.bitmaps.cached_bitmaps import CachedBitmaps
from hive_bitmap.core.index import checksums
from hive_bitmap.core.index.aggregate_columns import Aggregate
from hive_bitmap.core.index.definition import BUCKET, OFFSET, OFFSETS
from hive_bitmap.core.index.shard import CARDINALITY, cardinalities_path
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.memory_budget import cached as cached_function

BATCH_ROWS = 64 << 10  # cardinalities that are decoded at a time if nothing is cached
STATISTICS_BYTES = 250  # memory of the statistics of a row group, without their values
_IN_FILE = Aggregate("count").stored.name  # column of an AGGREGATE shard: how many rows of the file have the key
METADATA_SHARE = 4  # memory of a parsed footer, divided by its size
Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]
Sized = TypeVar("Sized", pa.Table, CachedBitmaps)
SHARDS = "shards"  # the kind of all caches of shard contents, and of results computed from shards
_cache: Cache[tuple[Any, ...], Any] = Cache(SHARDS, lambda rows: rows.nbytes)


class Rows(Enum):
    """What each row of a shard stands for when it is read."""

    BLOCKS = "a key in a block"  # BITMAP
    LISTS = "a key in the blocks of a list"  # COMPACT, and AGGREGATE when it selects blocks
    FILES = "a key in a file"  # AGGREGATE when it counts


@dataclass(frozen=True)
class KeyStats:
    """Statistics of one key column in a row group.

    `low` and `high` are the smallest and the largest value of the column in the row group. `low` and `high` are None if
    the statistics lack these values. `nulls` says whether NULL may occur.
    """

    low: Any
    high: Any
    nulls: bool


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Entries of one row group of a shard, without their bitmaps.

    There are n entries, each for a key and a block of a base file. A row of a BITMAP shard is one entry. A row of a
    COMPACT shard lists several blocks, so it becomes an entry for each of these blocks. All entries of a row have the
    same row number in `rows`. For COMPACT, `cardinality` is None, because COMPACT does not record which rows of a block
    hold the key. A row of an AGGREGATE shard is read like a row of a COMPACT shard, or as one entry for the whole file,
    as if the file were one block at offset 0.
    """

    group: int  # number of the row group in the shard
    rows: Longs  # n: numbers of the rows in the row group, ascending
    buckets: pa.DictionaryArray  # n: paths of base files, as strings
    offsets: Longs  # n: the offset of the block, as in `formats.blocks`
    cardinality: Longs | None  # n: how many rows of the block hold the key


def find(
    path: str,
    size: int,
    key: pa.Field,
    may_match: Callable[[KeyStats], bool],
    matches: Callable[[pa.Array], Flags],
    kind: Rows = Rows.BLOCKS,
) -> Iterator[Entries]:
    """Yield a shard's entries with a matching key, a row group at a time.

    The shard has `size` bytes, and the keys are values of the field `key`. `kind` says what a row of the shard stands
    for. `may_match` takes the statistics of a row group and returns whether a key may match. If no key may match, the
    row group is not read. `matches` takes the distinct keys of a row group, cast to the type of `key`, and returns a
    boolean for each key. Raises CorruptIndex for a shard that is missing, truncated or damaged.
    """
    with _reading(path):
        groups = [group for group, stats in enumerate(_statistics(path, size, key.name)) if may_match(stats)]
        for group, rows in _row_groups(path, size, groups, key, kind):
            keys = _array(rows[key.name])
            hits = np.flatnonzero(matches(keys.dictionary)[keys.indices.to_numpy(zero_copy_only=False)])
            if len(hits):
                yield _entries(group, rows if len(hits) == rows.num_rows else rows.take(pa.array(hits)), hits, kind)


def all_entries(
    path: str, size: int, keys: Sequence[pa.Field], may_match: Callable[[KeyStats], bool], kind: Rows = Rows.BLOCKS
) -> Iterator[tuple[list[pa.DictionaryArray], Entries]]:
    """Yield a shard's keys and entries, a row group at a time.

    The shard at `path` has `size` bytes. The rows of the shard are read as `kind`, which is not LISTS. The keys of a
    row group of n rows are dictionary-encoded arrays of length n: one array for each of the fields `keys`. `may_match`
    takes the statistics of the first of `keys` in a row group. Row groups for which it returns false are skipped.
    Raises CorruptIndex.
    """
    with _reading(path):
        groups = [group for group, stats in enumerate(_statistics(path, size, keys[0].name)) if may_match(stats)]
        yield from _all_entries(path, size, keys, groups, kind)


def entries_of_group(
    path: str, size: int, keys: Sequence[pa.Field], group: int, kind: Rows = Rows.BLOCKS
) -> tuple[list[pa.DictionaryArray], Entries]:
    """Return the keys and entries of one row group.

    The shard at `path` has `size` bytes. `group` is the position of the row group in the shard. The rows are read as
    `kind`, which is not LISTS. The keys are dictionary-encoded arrays, one for each of the fields `keys`. Raises
    CorruptIndex.
    """
    with _reading(path):
        return next(_all_entries(path, size, keys, [group], kind))


def _all_entries(
    path: str, size: int, keys: Sequence[pa.Field], groups: Sequence[int], kind: Rows
) -> Iterator[tuple[list[pa.DictionaryArray], Entries]]:
    for columns in zip(*(_row_groups(path, size, groups, key, kind) for key in keys), strict=True):
        group, rows = columns[0]
        values = [_array(table[key.name]) for key, (_, table) in zip(keys, columns, strict=True)]
        yield values, _entries(group, rows, np.arange(rows.num_rows), kind)


def share(path: str, size: int, key: pa.Field, may_match: Callable[[KeyStats], bool]) -> float:
    """Return the share of row groups that `find` would read.

    The share is from 0 to 1. The shard at `path` has `size` bytes. `may_match` takes the statistics of a row group's
    values of the field `key`, and returns whether a key may match. Raises CorruptIndex.
    """
    with _reading(path):
        groups = [may_match(stats) for stats in _statistics(path, size, key.name)]
        return sum(groups) / max(len(groups), 1)


def share_in_memory(path: str, size: int, key: pa.Field, kind: Rows = Rows.BLOCKS) -> float:
    """Return the share of row groups whose values of a key column are cached.

    The share is from 0 to 1. The shard at `path` has `size` bytes, and its rows are read as `kind`. Raises
    CorruptIndex.
    """
    with _reading(path):
        groups = len(_statistics(path, size, key.name))
        is_cached = [_cache.get(_place(path, group, key, kind)) is not None for group in range(groups)]
        return sum(is_cached) / max(groups, 1)


def statistics(path: str, size: int, key: str) -> tuple[KeyStats, ...]:
    """Return the statistics of a key column in each row group.

    The shard at `path` has `size` bytes. Raises CorruptIndex.
    """
    with _reading(path):
        return _statistics(path, size, key)


def is_sorted_by(path: str, size: int, key: str) -> bool:
    """Return whether a shard is sorted by a key column, NULL last.

    A shard is sorted by its first column. The shard at `path` has `size` bytes. Raises CorruptIndex.
    """
    with _reading(path):
        return bool(_metadata(path, size).schema.names[0] == key)


def key_range(path: str, size: int, key: str) -> tuple[Any, Any]:
    """Return the smallest and the largest value of a key column in a shard.

    The shard at `path` has `size` bytes. The result is (None, None) if the statistics lack these values, or if all
    values are NULL. Raises CorruptIndex.
    """
    with _reading(path):
        metadata = _metadata(path, size)
        number = metadata.schema.names.index(key)
        columns = [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]
        ranges = [_stats(column) for column in columns if not _is_null(column)]
        if not ranges or any(stats.low is None for stats in ranges):  # Parquet has none for long texts
            return None, None
        return min(stats.low for stats in ranges), max(stats.high for stats in ranges)


def bitmaps(path: str, size: int, group: int, encoding: str) -> CachedBitmaps:
    """Return the bitmaps of one row group, in row order.

    The shard at `path` has `size` bytes. `group` is the position of the row group in the shard. `encoding` is the name
    of the bitmaps' encoding. Raises CorruptIndex or CorruptBitmap.
    """
    with _reading(path):
        return cached((path, group, encoding), lambda: _read_bitmaps(path, size, group, encoding))


def stored_columns(path: str, size: int, group: int, fields: Sequence[pa.Field]) -> pa.Table:
    """Return columns of one row group, cast to the types of `fields`.

    The shard at `path` has `size` bytes. `group` is the position of the row group in the shard. `fields` are the
    columns. Raises CorruptIndex.
    """
    with _reading(path):
        return cached((path, group, *fields), lambda: _read_columns(path, size, group, fields))


def distinct(path: str, size: int, key: pa.Field) -> Iterator[pa.Array]:
    """Yield the distinct values of a key column in each row group.

    NULL counts as a value. The values are cast to the type of `key`. The shard at `path` has `size` bytes. Raises
    CorruptIndex.
    """
    with _reading(path), _open(path, size) as file:
        for group in range(file.num_row_groups):
            yield pc.unique(file.read_row_group(group, [key.name])[key.name].cast(key.type))


def counted_keys(
    path: str, size: int, key: pa.Field, kind: Rows = Rows.BLOCKS, fields: Sequence[pa.Field] = ()
) -> Iterator[tuple[pa.Array, pa.DictionaryArray, Longs, Longs, pa.Table]]:
    """Yield the rows of a shard, one row group at a time.

    The shard at `path` has `size` bytes. The rows of the shard are read as `kind`, which is not LISTS. The four arrays
    have an item for each row: the key (cast to the type of `key`), the path of the base file, the offset of the block
    and the cardinality. For FILES, the offset is 0, and the cardinality is the number of rows of the file with the key.
    The table has the columns `fields`. The rows are not cached, because the row groups of a large shard would evict all
    other cache entries. Raises CorruptIndex.
    """
    with _reading(path):
        metadata = _metadata(path, size)
        with stores.open_immutable(path, size) as source:
            file = open_checked(source, metadata, _sums(path), dictionaries=[BUCKET.name])
            sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            counts = repeat(None) if kind is Rows.FILES else _streamed_cardinalities(path, sizes)
            place = (_IN_FILE,) if kind is Rows.FILES else (OFFSET.name,)
            schema = pa.schema(fields)
            for cardinality, group in zip(counts, range(len(sizes)), strict=False):
                rows = file.read_row_group(group, [key.name, BUCKET.name, *place, *schema.names])
                counted = _counted_in_file(rows) if cardinality is None else (rows[OFFSET.name].to_numpy(), cardinality)
                buckets = _array(pc.dictionary_encode(rows[BUCKET.name]))
                stored = rows.select(schema.names).cast(schema)
                yield _array(rows[key.name].cast(key.type)), buckets, *counted, stored


def open_checked(
    source: pa.NativeFile, metadata: pq.FileMetaData, sums: Sequence[int] | None, dictionaries: Sequence[str] = ()
) -> pq.ParquetFile:
    """Open a shard whose column chunks are checked when they are read.

    `metadata` is the footer of the shard. `sums` are the checksums of the shard; if `sums` is None, nothing is checked.
    The columns `dictionaries` are read as dictionary-encoded arrays.
    """
    return pq.ParquetFile(
        checksums.chunks_of(source, metadata, sums),
        metadata=metadata,
        read_dictionary=list(dictionaries),
        pre_buffer=False,  # so that each column chunk is read by itself
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",
    )


def cardinalities(path: str) -> Longs:
    """Return the cardinality of each row of a shard (int64).

    Cardinalities are in a separate file (`cardinalities_path`). Raises CorruptIndex.
    """
    with _reading(cardinalities_path(path)):
        column: Longs = pq.read_table(_sidecar(path))[CARDINALITY.name].to_numpy()
        return column.astype(np.int64)


def _sidecar(path: str) -> pa.BufferReader:
    """Return the content of a shard's cardinality file, after checking its checksum."""
    sidecar = cardinalities_path(path)
    content = stores.read_immutable(sidecar)
    sums = checksums.read(path.rpartition("/")[0])
    checksums.require(content, sums.get(sidecar.rpartition("/")[2]))
    return pa.BufferReader(content)


def _streamed_cardinalities(path: str, sizes: Sequence[int]) -> Iterator[Longs]:
    """Yield the cardinalities of each row group of a shard.

    `sizes` has the number of rows of each row group. Only a few cardinalities are in memory at a time.
    """
    batches = pq.ParquetFile(_sidecar(path)).iter_batches(BATCH_ROWS)
    buffered = np.empty(0, np.int64)
    for size in sizes:
        while len(buffered) < size:
            batch = next(batches, None)
            if batch is None:
                raise OSError(f"it has {sum(sizes)} rows, but fewer cardinalities")
            buffered = np.concatenate([buffered, batch.column(0).to_numpy().astype(np.int64)])
        yield buffered[:size]
        buffered = buffered[size:]
    if len(buffered) or next(batches, None) is not None:
        raise OSError(f"it has {sum(sizes)} rows, but more cardinalities")


def cached(key: tuple[Any, ...], make: Callable[[], Sized]) -> Sized:
    """Return the cached value of `key`, computed by `make` on first use.

    The value must depend on shards only, and `key` must contain the paths of these shards. Shards never change, so the
    cached value stays valid.
    """
    value: Sized = _cache.of(key, make)
    return value


def clear_caches() -> None:
    """Empty all caches of shards."""
    _metadata.cache_clear()
    _statistics.cache_clear()
    _cache.clear()


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Convert errors of Arrow and of the store in the `with` block.

    `path` is the shard that is read. Errors become DroppedIndex if the generation of the shard no longer exists, and
    CorruptIndex otherwise.
    """
    try:
        yield
    except (OSError, pa.ArrowException, KeyError, ValueError) as e:
        folder, _, shard = path.rpartition("/")
        raise checksums.error(folder, f"shard {shard}", e) from e


def _row_groups(
    path: str, size: int, groups: Sequence[int], key: pa.Field, kind: Rows
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the position and the rows of some row groups of a shard.

    The shard at `path` has `size` bytes, and `groups` has the positions of the row groups. A row has the key
    (dictionary-encoded), the path of the base file, the offset or offsets, and the cardinality. Rows that are read as
    LISTS have no cardinality. The shard is opened only if a row group is not cached.
    """
    with ExitStack() as stack:
        opened = cache(lambda: _with_cardinalities(stack.enter_context(_open(path, size)), path, kind))
        for group in groups:
            read = partial(_row_group, opened, group, key, kind)
            yield group, cached(_place(path, group, key, kind), read)


def _place(path: str, group: int, key: pa.Field, kind: Rows) -> tuple[Any, ...]:
    return (path, group, key.name, key.type, kind)


def _with_cardinalities(file: pq.ParquetFile, path: str, kind: Rows) -> tuple[pq.ParquetFile, list[Longs] | None]:
    """Return an open shard, and the cardinalities of each row group.

    `file` is the open shard, and `path` its path. The cardinalities are None unless `kind` is BLOCKS.
    """
    if kind is not Rows.BLOCKS:
        return file, None
    counts = cardinalities(path)
    ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)], dtype=np.int64)
    if len(counts) != ends[-1:].sum():
        raise OSError(f"it has {ends[-1:].sum()} rows, but {len(counts)} cardinalities")
    return file, np.split(counts, ends[:-1])


def _row_group(
    opened: Callable[[], tuple[pq.ParquetFile, list[Longs] | None]], group: int, key: pa.Field, kind: Rows
) -> pa.Table:
    file, cardinality = opened()
    if kind is Rows.FILES:
        rows = file.read_row_group(group, [key.name, BUCKET.name, _IN_FILE])
        numbers = zip((OFFSET.name, CARDINALITY.name), _counted_in_file(rows), strict=True)
        columns = {name: rows[name] for name in (key.name, BUCKET.name)} | {name: pa.array(n) for name, n in numbers}
        return _dictionary_encoded(pa.table(columns), key)
    offsets = OFFSETS if cardinality is None else OFFSET
    rows = _dictionary_encoded(file.read_row_group(group, [key.name, BUCKET.name, offsets.name]), key)
    return rows if cardinality is None else rows.append_column(CARDINALITY.name, pa.array(cardinality[group]))


def _counted_in_file(rows: pa.Table) -> tuple[Longs, Longs]:
    """Return the offset, and the number of base rows, of each index row of an AGGREGATE shard.

    Each offset is 0, because such a row stands for a whole file.
    """
    if rows[_IN_FILE].null_count:
        raise ValueError(f"a value of {_IN_FILE} is NULL")
    return np.zeros(rows.num_rows, np.int64), rows[_IN_FILE].to_numpy()


def _dictionary_encoded(rows: pa.Table, key: pa.Field) -> pa.Table:
    keys = pc.dictionary_encode(rows[key.name].cast(key.type), null_encoding="encode")
    rows = rows.set_column(1, BUCKET.name, pc.dictionary_encode(rows[BUCKET.name]))
    return rows.set_column(0, key.name, keys).combine_chunks()


def _entries(group: int, rows: pa.Table, hits: Longs, kind: Rows) -> Entries:
    buckets = _array(rows[BUCKET.name])
    if kind is not Rows.LISTS:
        return Entries(
            group=group,
            rows=hits,
            buckets=buckets,
            offsets=rows[OFFSET.name].to_numpy(),
            cardinality=rows[CARDINALITY.name].to_numpy(),
        )
    offsets = _array(rows[OFFSETS.name])
    parents = pc.list_parent_indices(offsets)
    return Entries(
        group=group,
        rows=hits[parents.to_numpy()],
        buckets=buckets.take(parents),
        offsets=pc.list_flatten(offsets).to_numpy(),
        cardinality=None,
    )


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _read_bitmaps(path: str, size: int, group: int, encoding: str) -> CachedBitmaps:
    names = [field.name for field in ENCODINGS[encoding].FIELDS]
    with _open(path, size) as file:
        rows = file.read_row_group(group, names)
    return ENCODINGS[encoding].to_cached([_array(rows[name]) for name in names])


def _read_columns(path: str, size: int, group: int, fields: Sequence[pa.Field]) -> pa.Table:
    schema = pa.schema(fields)
    with _open(path, size) as file:
        return file.read_row_group(group, schema.names).select(schema.names).cast(schema).combine_chunks()


def _footer_bytes(footer: pq.FileMetaData) -> int:
    return METADATA_SHARE * int(footer.serialized_size)


@cached_function("footers of shards", _footer_bytes)
def _metadata(path: str, size: int) -> pq.FileMetaData:
    with stores.open_immutable(path, size) as source:
        if source.size() != size:
            raise OSError(f"it has {source.size()} bytes instead of {size}")
        return checksums.footer_of(source, _sums(path))


@contextmanager
def _open(path: str, size: int) -> Iterator[pq.ParquetFile]:
    metadata = _metadata(path, size)
    with stores.open_immutable(path, size) as source:
        yield open_checked(source, metadata, _sums(path))


def _sums(path: str) -> Sequence[int] | None:
    folder, _, name = path.rpartition("/")
    return checksums.read(folder).get(name)


def _statistics_bytes(groups: tuple[KeyStats, ...]) -> int:
    texts = (value for stats in groups for value in (stats.low, stats.high) if isinstance(value, (str, bytes)))
    return STATISTICS_BYTES * len(groups) + sum(map(len, texts))


@cached_function("statistics of shards", _statistics_bytes)
def _statistics(path: str, size: int, key: str) -> tuple[KeyStats, ...]:
    """Return the statistics of a key column in each row group."""
    metadata = _metadata(path, size)
    number = metadata.schema.names.index(key)
    return tuple(_stats(metadata.row_group(group).column(number)) for group in range(metadata.num_row_groups))


def _stats(column: Any) -> KeyStats:
    stats = column.statistics if column.is_stats_set else None
    if stats is None or not stats.has_null_count:
        return KeyStats(None, None, True)
    low, high = (stats.min, stats.max) if stats.has_min_max else (None, None)
    return KeyStats(low, high, stats.null_count > 0)


def _is_null(column: Any) -> bool:
    """Return whether all values of a column chunk are NULL.

    `column` has the statistics of the column chunk. Without statistics, the result is false.
    """
    stats = column.statistics if column.is_stats_set else None
    return stats is not None and stats.has_null_count and stats.null_count == column.num_values
