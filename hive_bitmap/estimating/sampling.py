"""Sampling a table: which of its blocks are looked at, and what indexing them takes, inside Spark tasks.

The blocks are put in the order of the bytes that the key columns take a row, as far as the footers tell, and one is
taken of each of the equal stretches of that order, the one most like its mean. So blocks where keys lie together and
blocks where they are scattered are met as often as the table has them, and the sample is the same each time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap import stores
from hive_bitmap.building import staged_values
from hive_bitmap.building.group_indexing import index_rows
from hive_bitmap.columns import Column
from hive_bitmap.errors import FileChanged, Undecodable
from hive_bitmap.estimating.resample import resampled
from hive_bitmap.index import shard
from hive_bitmap.index.definition import BUCKET, Definition
from hive_bitmap.index.table_schema import key_columns

Longs = npt.NDArray[np.int64]
FEWEST_BLOCKS = 4  # of a sample: fewer do not tell how many blocks hold a key


@dataclass(frozen=True)
class Footer:
    """A base file whose footer is asked for the bytes of the columns of each index; it travels to a task.

    `format`, `schema`, `time_zone` and `staging` are as in `verifying.audit.ShardItem`.
    """

    path: str
    format: str
    columns: tuple[tuple[Column, ...], ...]
    schema: tuple[Column, ...]
    time_zone: str
    staging: str = ""


@dataclass(frozen=True)
class SampleItem:
    """Sampled blocks, (path, number in its file) each, whose key columns take `size` bytes; it travels to a task.

    The task indexes them together, as if they were the group of a shard; one of a build has about `shard_blocks` blocks
    in `shard_files` files. The rest is as in Footer.
    """

    definition: Definition
    blocks: tuple[tuple[str, int], ...]
    size: int
    shard_blocks: int
    shard_files: float
    format: str
    schema: tuple[Column, ...]
    time_zone: str
    staging: str = ""


@dataclass(frozen=True)
class Took:
    """Bytes of an index on the sampled blocks, as a part of a whole shard, and the seconds that writing them took.

    `data` and `cardinalities` grow with the table; each row group takes another `frame`, and each file of cardinalities
    another `cardinality_frame`. `groups` is how many row groups the rows fill.
    """

    data: float = 0.0
    frame: int = 0
    groups: float = 0.0
    cardinalities: int = 0
    cardinality_frame: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Sample:
    """What a task measured: `blocks` blocks, whose key columns take `size` bytes; none, for this `reason`.

    `index_rows` is the number of pairs of a key and a block that holds it, `again` that of (key, block, other block)
    where both blocks hold the key, `keys` that of distinct keys. A build would take so many `seconds` for the blocks.
    """

    blocks: int
    size: int
    index_rows: int
    keys: int
    again: int
    took: Took
    seconds: float
    reason: str = ""


def look(footer: Footer) -> tuple[Longs, Longs]:
    """Of the b blocks of a file and its i indexes: the rows of each block (b), and the bytes of the columns of each
    index in each block (i, b), both int64.

    No blocks where the file cannot be read, for then a build leaves it unindexed. Raises StoreError.
    """
    format = staged_values.reader(footer.format, footer.staging)
    try:
        handle = format.open_file(footer.path)
        blocks = format.blocks(handle)
    except (Undecodable, FileChanged, FileNotFoundError):
        return np.zeros(0, np.int64), np.zeros((len(footer.columns), 0), np.int64)
    size = np.empty((len(footer.columns), len(blocks)), np.int64)
    for index, columns in enumerate(footer.columns):
        try:
            size[index] = format.column_bytes(handle, key_columns(columns, footer.schema, footer.time_zone))
        except Undecodable:
            size[index] = blocks.length
    return blocks.rows, size


def choose(rows: Longs, size: Longs, share: float) -> Longs:
    """The numbers of the sampled blocks, ascending (int64), of b blocks with so many rows, none of them 0, and so many
    bytes of the key columns; about `share` of them, FEWEST_BLOCKS at least where there are as many.
    """
    count = min(len(rows), max(FEWEST_BLOCKS, int(len(rows) * share)))
    each = size / rows
    stretches = np.array_split(np.argsort(each, kind="stable"), max(count, 1))
    return np.sort([s[np.argmin(np.abs(each[s] - each[s].mean()))] for s in stretches if len(s)]).astype(np.int64)


def measure(item: SampleItem) -> Sample:
    """Index the blocks as a build does, and write them as a shard into a folder that goes when it is measured.

    A block that cannot be indexed is told in the result. Raises StoreError.
    """
    started = time.perf_counter()
    try:
        parts = list(_index_rows(item))
    except (Undecodable, FileChanged, FileNotFoundError) as e:
        return Sample(0, 0, 0, 0, 0, Took(), 0.0, str(e))
    rows = shard.sort(pa.concat_tables(parts), item.definition.column_names)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        took = _take(f"file:{folder}/part.parquet", rows, item)
    held = _blocks_of_keys(rows, item.definition)
    again = int((held * (held - 1)).sum())
    return Sample(len(parts), item.size, rows.num_rows, len(held), again, took, seconds + took.seconds)


def _index_rows(item: SampleItem) -> Iterator[pa.Table]:
    format = staged_values.reader(item.format, item.staging)
    columns = key_columns(item.definition.columns, item.schema, item.time_zone)
    for path, block in item.blocks:
        handle = format.open_file(path)
        keys = format.key_columns(handle, block, columns)
        yield index_rows(item.definition, keys, path, int(format.blocks(handle).offset[block]))


def _take(path: str, rows: pa.Table, item: SampleItem) -> Took:
    definition, keys, sampled = item.definition, item.definition.column_names, len(item.blocks)
    least = index_rows(definition, rows.select(keys).slice(0, 1), rows[BUCKET.name][0].as_py(), 4)
    if definition.type == "BITMAP":
        return _written(path, rows, least, definition)
    blocks, parts = resampled(rows, keys, sampled, item.shard_blocks, item.shard_files)
    least = shard.compact(least, keys)
    took = [(_written(path, shard.compact(part, keys), least, definition), times) for part, times in parts]
    share = sampled / blocks
    return Took(
        data=sum(each.data * times for each, times in took) * share,
        frame=max(each.frame for each, _ in took),
        groups=sum(each.groups * times for each, times in took) * share,
        seconds=sum(each.seconds * times for each, times in took) * share,
    )


def _written(path: str, rows: pa.Table, least: pa.Table, definition: Definition) -> Took:
    """What the rows take in a shard; `least`, a row with a small bitmap, tells what a row group takes by itself."""
    started = time.perf_counter()
    written = shard.write(path, rows, definition)
    seconds = time.perf_counter() - started
    groups = _row_groups(path)
    frame = shard.write(path, least, definition)
    return Took(
        max(written.size - groups * frame.size, 0),
        frame.size,
        rows.nbytes / shard.ROW_GROUP_BYTES,
        written.cardinality_size - frame.cardinality_size,
        frame.cardinality_size,
        seconds,
    )


def _blocks_of_keys(rows: pa.Table, definition: Definition) -> Longs:
    """In how many of the sampled blocks each key occurs."""
    names = list(definition.column_names)
    held: Longs = rows.select(names).group_by(names).aggregate([([], "count_all")])["count_all"].to_numpy()
    return held


def _row_groups(path: str) -> int:
    with stores.open_input(path) as source:
        groups: int = pq.read_metadata(source).num_row_groups
        return groups
