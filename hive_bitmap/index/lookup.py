"""Finding rows in a shard: first keys, places and cardinalities of whole row groups, then the bitmaps that are needed.

A shard never changes, so what was read of one is kept in memory, up to KEPT_BYTES in a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from cachetools import LRUCache

from hive_bitmap import stores
from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.bitmaps.cached_bitmaps import CachedBitmaps
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.index import checksums
from hive_bitmap.index.definition import BUCKET, OFFSET, OFFSETS
from hive_bitmap.index.shard import CARDINALITY, cardinalities_path

KEPT_BYTES = 256 << 20
Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]
Sized = TypeVar("Sized", pa.Table, CachedBitmaps)
_kept: LRUCache[tuple[Any, ...], Any] = LRUCache(KEPT_BYTES, lambda rows: rows.nbytes + 1024)
_lock = Lock()


@dataclass(frozen=True)
class KeyStats:
    """The smallest and largest key of a row group, None where the statistics do not say, and whether NULL may occur."""

    low: Any
    high: Any
    nulls: bool


@dataclass(frozen=True)
class Entries:
    """Rows of one row group of a shard without their bitmaps: n pairs of a base file and a block of it.

    A row of BITMAP is one such pair. A row of COMPACT has many blocks, so its number occurs here once for each of them;
    `cardinality` is then None, for COMPACT does not know which rows of a block hold the key.
    """

    group: int  # number of the row group in the shard
    rows: Longs  # n: number of the row in the row group, ascending
    buckets: pa.DictionaryArray  # n: paths of base files, as strings
    offsets: Longs  # n: the byte by which the block is known, see `formats.blocks`
    cardinality: Longs | None  # n: how many rows of the block hold the key


def find(
    path: str,
    size: int,
    key: pa.Field,
    wanted: Callable[[KeyStats], bool],
    matches: Callable[[pa.Array], Flags],
    compact: bool = False,
) -> Iterator[Entries]:
    """The entries of a shard of `size` bytes whose value of the field `key` matches, a row group at a time.

    Row groups of which `wanted` says, by their statistics, that no key can match are not read. Of each of the others
    `matches` gets the distinct keys, in the type of `key`, and returns a flag for each. Raises CorruptIndex for a shard
    that is missing, truncated or damaged.
    """
    with _reading(path):
        groups = [group for group, stats in enumerate(_statistics(path, size, key.name)) if wanted(stats)]
        for group, rows in _row_groups(path, size, groups, key, compact):
            keys = _array(rows[key.name])
            hits = np.flatnonzero(matches(keys.dictionary)[keys.indices.to_numpy(zero_copy_only=False)])
            if len(hits):
                yield _entries(group, rows if len(hits) == rows.num_rows else rows.take(pa.array(hits)), hits, compact)


def keyed(
    path: str, size: int, keys: Sequence[pa.Field], wanted: Callable[[KeyStats], bool]
) -> Iterator[tuple[list[pa.DictionaryArray], Entries]]:
    """All entries of a shard of bitmaps, a row group at a time, each with its values of the fields `keys`.

    The values of a row group of n rows are an array of n values for each field, dictionary-encoded. Row groups of which
    `wanted` says, by the statistics of the first field, that they are not needed are left out. Raises CorruptIndex.
    """
    with _reading(path):
        groups = [group for group, stats in enumerate(_statistics(path, size, keys[0].name)) if wanted(stats)]
        for columns in zip(*(_row_groups(path, size, groups, key, False) for key in keys), strict=True):
            group, rows = columns[0]
            values = [_array(held[key.name]) for key, (_, held) in zip(keys, columns, strict=True)]
            yield values, _entries(group, rows, np.arange(rows.num_rows), False)


def share(path: str, size: int, key: pa.Field, wanted: Callable[[KeyStats], bool]) -> float:
    """Which share of the row groups of a shard `find` would read. Raises CorruptIndex."""
    with _reading(path):
        groups = [wanted(stats) for stats in _statistics(path, size, key.name)]
        return sum(groups) / max(len(groups), 1)


def bitmaps(path: str, size: int, group: int, encoding: str) -> CachedBitmaps:
    """The bitmaps of one row group of a shard, in the order of its rows. Raises CorruptIndex or CorruptBitmap."""
    with _reading(path):
        return remembered((path, group, encoding), lambda: _read(path, size, group, encoding))


def distinct(path: str, size: int, key: pa.Field) -> pa.Array:
    """The distinct values of one key column of a shard, in the type of `key`, NULL among them. Raises CorruptIndex."""
    with _reading(path), _open(path, size) as file:
        return pc.unique(file.read(columns=[key.name])[key.name].cast(key.type))


def open_checked(source: pa.NativeFile, metadata: pq.FileMetaData, sums: Sequence[int] | None) -> pq.ParquetFile:
    """A shard whose column chunks are compared with their sums; so each is read by itself, not with its neighbours."""
    return pq.ParquetFile(
        checksums.chunks_of(source, metadata, sums),
        metadata=metadata,
        pre_buffer=False,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",
    )


def cardinalities(path: str) -> Longs:
    """The cardinality of each row of a shard (int64), in its order, from the file beside it. Raises CorruptIndex."""
    beside = cardinalities_path(path)
    with _reading(beside):
        content = stores.read_kept(beside)
        sums = checksums.read(path.rpartition("/")[0])
        checksums.require(content, sums.get(beside.rpartition("/")[2]))
        column: Longs = pq.read_table(pa.BufferReader(content))[CARDINALITY.name].to_numpy()
        return column.astype(np.int64)


def remembered(where: tuple[Any, ...], make: Callable[[], Sized]) -> Sized:
    """What is made of nothing but shards, which `where` names, once: it is kept in memory."""
    with _lock:
        kept: Sized | None = _kept.get(where)
    if kept is None:
        kept = make()
        _keep(where, kept)
    return kept


def forget() -> None:
    """Let go of all that is kept."""
    _metadata.cache_clear()
    _statistics.cache_clear()
    with _lock:
        _kept.clear()


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, KeyError, ValueError) as e:
        raise CorruptIndex(f"shard {path} cannot be read: {e}") from e


def _row_groups(
    path: str, size: int, groups: Sequence[int], key: pa.Field, compact: bool
) -> Iterator[tuple[int, pa.Table]]:
    """Key (dictionary-encoded), bucket, offsets and cardinality of these row groups, each with its number.

    The shard is opened where the first is not kept.
    """
    with ExitStack() as stack:
        opened = cache(lambda: _counted(stack.enter_context(_open(path, size)), path, compact))
        for group in groups:
            read = partial(_row_group, opened, group, key)
            yield group, remembered((path, group, key.name, key.type), read)


def _counted(file: pq.ParquetFile, path: str, compact: bool) -> tuple[pq.ParquetFile, list[Longs] | None]:
    """A shard with the cardinalities of the rows of each row group, which those of COMPACT lack."""
    if compact:
        return file, None
    counted = cardinalities(path)
    ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)], dtype=np.int64)
    if len(counted) != ends[-1:].sum():
        raise OSError(f"it has {ends[-1:].sum()} rows, but {len(counted)} cardinalities")
    return file, np.split(counted, ends[:-1])


def _row_group(opened: Callable[[], tuple[pq.ParquetFile, list[Longs] | None]], group: int, key: pa.Field) -> pa.Table:
    file, counted = opened()
    offsets = OFFSETS if counted is None else OFFSET
    rows = _encoded(file.read_row_group(group, [key.name, BUCKET.name, offsets.name]), key)
    return rows if counted is None else rows.append_column(CARDINALITY.name, pa.array(counted[group]))


def _encoded(rows: pa.Table, key: pa.Field) -> pa.Table:
    keys = pc.dictionary_encode(rows[key.name].cast(key.type), null_encoding="encode")
    rows = rows.set_column(1, BUCKET.name, pc.dictionary_encode(rows[BUCKET.name]))
    return rows.set_column(0, key.name, keys).combine_chunks()


def _entries(group: int, rows: pa.Table, hits: Longs, compact: bool) -> Entries:
    buckets = _array(rows[BUCKET.name])
    if not compact:
        return Entries(group, hits, buckets, rows[OFFSET.name].to_numpy(), rows[CARDINALITY.name].to_numpy())
    offsets = _array(rows[OFFSETS.name])
    parents = pc.list_parent_indices(offsets)
    return Entries(group, hits[parents.to_numpy()], buckets.take(parents), pc.list_flatten(offsets).to_numpy(), None)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _keep(where: tuple[Any, ...], rows: pa.Table | CachedBitmaps) -> None:
    with _lock:
        if rows.nbytes < _kept.maxsize // 4:
            _kept[where] = rows


def _read(path: str, size: int, group: int, encoding: str) -> CachedBitmaps:
    names = [field.name for field in ENCODINGS[encoding].FIELDS]
    with _open(path, size) as file:
        rows = file.read_row_group(group, names)
    return ENCODINGS[encoding].hold([_array(rows[name]) for name in names])


@lru_cache(maxsize=4096)
def _metadata(path: str, size: int) -> pq.FileMetaData:
    """A shard's footer."""
    with stores.open_kept(path, size) as source:
        if source.size() != size:
            raise OSError(f"it has {source.size()} bytes instead of {size}")
        return checksums.footer_of(source, _sums(path))


@contextmanager
def _open(path: str, size: int) -> Iterator[pq.ParquetFile]:
    metadata = _metadata(path, size)
    with stores.open_kept(path, size) as source:
        yield open_checked(source, metadata, _sums(path))


def _sums(path: str) -> Sequence[int] | None:
    folder, _, name = path.rpartition("/")
    return checksums.read(folder).get(name)


@lru_cache(maxsize=4096)
def _statistics(path: str, size: int, key: str) -> tuple[KeyStats, ...]:
    """Those of each row group of a shard."""
    metadata = _metadata(path, size)
    number = metadata.schema.names.index(key)
    return tuple(_stats(metadata.row_group(group).column(number)) for group in range(metadata.num_row_groups))


def _stats(column: Any) -> KeyStats:
    stats = column.statistics if column.is_stats_set else None
    if stats is None or not stats.has_null_count:
        return KeyStats(None, None, True)
    low, high = (stats.min, stats.max) if stats.has_min_max else (None, None)
    return KeyStats(low, high, stats.null_count > 0)
