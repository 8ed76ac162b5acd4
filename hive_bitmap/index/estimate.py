"""Estimating an index before it is built: a few blocks are indexed as a build would, and what they took is scaled up.

The sample is the same each time: blocks at even distances over all partitions and files, each shifted inside its
stretch so that no rhythm of the files (the first row group of each, say) is caught. What is measured is a shard written
as a build writes it. Its data grow with the rows of the table; what a shard or row group takes by itself (footer, page
headers, the first value of each dictionary) is told apart by a shard of one row, and grows with their number.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.columns import Column
from hive_bitmap.errors import InvalidProperty, Undecodable
from hive_bitmap.formats import FORMATS, storage
from hive_bitmap.index import metastore, shard
from hive_bitmap.index.definition import Definition, define
from hive_bitmap.index.group import index_rows, key_columns
from hive_bitmap.index.grouping import GROUP_BYTES, cuts
from hive_bitmap.index.listing import format_of
from hive_bitmap.index.sources import sources
from hive_bitmap.index.tasks import distribute, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Longs = npt.NDArray[np.int64]
FEWEST_BLOCKS = 2  # of a sample: one block does not tell how many blocks hold a key
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Estimate:
    """What an index would be: bytes of its shards, and seconds that the tasks of a build would take.

    `distinct_keys` is a lower bound. `usefulness` says in a sentence what an equality would skip.
    """

    columns: tuple[str, ...]
    encoding: str
    blocks_sampled: int
    blocks_total: int
    distinct_keys: int
    index_bytes: int
    base_bytes: int
    seconds: float
    usefulness: str


@dataclass(frozen=True)
class _SampleItem:
    """Sampled blocks, (path, block) each, that a task indexes together, as if they were the group of a shard."""

    definitions: tuple[Definition, ...]
    blocks: tuple[tuple[str, int], ...]
    format: str
    schema: tuple[Column, ...]
    time_zone: str


@dataclass(frozen=True)
class _Sample:
    """What a task measured for one definition: of `blocks` blocks with `rows` rows.

    `pairs` is the number of (key, block, other block) where both blocks hold the key. Of the bytes written, `data` grow
    with the rows; each row group takes another `frame`. `groups` is how many row groups the rows fill.
    """

    blocks: int
    rows: int
    index_rows: int
    keys: int
    pairs: int
    data: float
    frame: int
    groups: float
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class _Table:
    """The base table: its blocks with rows, their rows, bytes of its files, and shards that a build would make."""

    blocks: int
    rows: int
    bytes: int
    shards: int
    workers: int


def estimate(
    spark: SparkSession,
    table: str,
    columns: Sequence[str | Sequence[str]],
    *,
    type: str = "BITMAP",
    encoding: str = "gap",
    compression: str = "zstd",
    sample: float = 0.05,
) -> list[Estimate]:
    """What indexes on these columns would take and be good for; one estimate an item of `columns`, as in `build`.

    Indexes at most the share `sample` of the blocks (but two, where there are two) and reads the footers of all files.
    Raises NotFound, Unsupported or InvalidProperty as `build` does.
    """
    if not 0 < sample <= 1:
        raise InvalidProperty(f"a sample is a share of the blocks between 0 and 1, not {sample}")
    base = metastore.describe(spark, table)
    format = format_of(base)
    items = [[item] if isinstance(item, str) else list(item) for item in columns]
    definitions = tuple(define(base, item, type=type, encoding=encoding, compression=compression) for item in items)
    found = sources(spark, base)
    paths = [file.path for source in found for file in source.files]
    file, block, rows = _block_list(spark, format, paths)
    size = sum(file.size for source in found for file in source.files)
    groups = sum(1 for _ in cuts(spark, found))
    whole = _Table(len(file), int(rows.sum()), size, groups, max(1, min(groups, parallelism(spark))))
    chosen = _choose(len(file), sample)
    tasks = _tasks(len(chosen), whole, parallelism(spark))
    zone = metastore.time_zone(spark)
    places = [tuple((paths[file[n]], int(block[n])) for n in chosen[task::tasks]) for task in range(tasks)]
    work = [_SampleItem(definitions, blocks, format, base.columns, zone) for blocks in places]
    measured = _in_tasks(spark, work, _measure)
    return [_estimate(d, whole, [each[number] for each in measured]) for number, d in enumerate(definitions)]


def _block_list(spark: SparkSession, format: str, paths: Sequence[str]) -> tuple[Longs, Longs, Longs]:
    """File, number in the file, and rows of all blocks that hold rows, in order; without files that cannot be read."""
    counts = _in_tasks(spark, [(format, path) for path in paths], _rows_of_blocks)
    blocks = [np.flatnonzero(rows) for rows in counts]
    empty = [np.zeros(0, np.int64)]
    return (
        np.repeat(np.arange(len(paths)), [len(each) for each in blocks]),
        np.concatenate(empty + blocks),
        np.concatenate(empty + [rows[each] for rows, each in zip(counts, blocks, strict=True)]),
    )


def _rows_of_blocks(item: tuple[str, str]) -> Longs:
    format, path = FORMATS[item[0]], item[1]
    try:
        return format.blocks(format.open_file(path)).rows
    except (Undecodable, FileNotFoundError):  # a build leaves it unindexed
        return np.zeros(0, np.int64)


def _in_tasks(spark: SparkSession, items: Sequence[Any], run: Callable[[Any], Any]) -> list[Any]:
    """The results of `run`, a function of a module, for each of the items, in their order."""
    if not items:
        return []
    numbered = distribute(spark, list(enumerate(items)))
    found = numbered.mapInArrow(partial(_run_batches, run=run), "result binary").collect()
    return [result for _, result in sorted((pickle.loads(row[0]) for row in found), key=lambda pair: pair[0])]


def _run_batches(batches: Iterable[pa.RecordBatch], run: Callable[[Any], Any]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for item in batch.column(0):
            number, work = pickle.loads(item.as_py())
            yield pa.record_batch([pa.array([pickle.dumps((number, run(work)))], pa.binary())], ["result"])


def _choose(blocks: int, share: float) -> Longs:
    """The numbers of the sampled blocks, ascending: one of each of the equal stretches that the blocks are cut in."""
    count = min(blocks, max(FEWEST_BLOCKS, int(blocks * share)))
    ends = np.arange(count + 1) * blocks // max(count, 1)
    return ends[:-1] + ((np.arange(1, count + 1) * _GOLDEN % 1) * np.diff(ends)).astype(np.int64)


def _tasks(chosen: int, whole: _Table, cores: int) -> int:
    """As few tasks as keep the cores busy with two blocks each, and no task with more bytes than one of a build."""
    size = whole.bytes * chosen / max(1, whole.blocks)
    return min(chosen, max(int(np.ceil(size / GROUP_BYTES)), min(cores, chosen // 2), 1))


def _measure(item: _SampleItem) -> list[_Sample]:
    return [_measure_one(item, definition) for definition in item.definitions]


def _measure_one(item: _SampleItem, definition: Definition) -> _Sample:
    """Index the blocks as a build does, and write them as a shard into a folder that goes when it is measured."""
    started = time.perf_counter()
    format, columns = FORMATS[item.format], key_columns(definition.columns, item.schema, item.time_zone)
    parts, base_rows = [], 0
    try:
        for path, block in item.blocks:
            handle = format.open_file(path)
            keys = format.key_columns(handle, block, columns)
            base_rows += keys.num_rows
            parts.append(index_rows(definition, keys, path, int(format.blocks(handle).offset[block])))
    except (Undecodable, FileNotFoundError) as e:
        return _Sample(0, 0, 0, 0, 0, 0.0, 0, 0.0, 0.0, str(e))
    rows = shard.sort(pa.concat_tables(parts), definition.column_names)
    held = _blocks_of_keys(rows, definition)
    with tempfile.TemporaryDirectory() as folder:
        path = f"file:{folder}/part.parquet"
        size = _write(path, rows, definition)
        seconds = time.perf_counter() - started
        groups = _row_groups(path)
        frame = _write(path, index_rows(definition, keys.slice(0, 1), *item.blocks[0]), definition)
    pairs, data = int((held * (held - 1)).sum()), max(size - groups * frame, 0)
    filled = rows.nbytes / shard.ROW_GROUP_BYTES
    return _Sample(len(parts), base_rows, int(held.sum()), len(held), pairs, data, frame, filled, seconds)


def _write(path: str, rows: pa.Table, definition: Definition) -> int:
    compact = definition.type == "COMPACT"
    return shard.write(path, shard.compact(rows, definition.column_names) if compact else rows, definition).size


def _blocks_of_keys(rows: pa.Table, definition: Definition) -> Longs:
    """In how many of the sampled blocks each key occurs."""
    names = list(definition.column_names)
    return rows.select(names).group_by(names).aggregate([([], "count_all")])["count_all"].to_numpy()


def _row_groups(path: str) -> int:
    with storage.open_input(path) as source:
        groups: int = pq.read_metadata(source).num_row_groups
        return groups


def _estimate(definition: Definition, whole: _Table, samples: Sequence[_Sample]) -> Estimate:
    good = [sample for sample in samples if sample.rows]
    blocks, rows = sum(sample.blocks for sample in good), sum(sample.rows for sample in good)
    scale = whole.rows / max(1, rows)
    frame = max((sample.frame for sample in good), default=0)
    groups = whole.shards + int(scale * sum(sample.groups for sample in good))
    return Estimate(
        definition.column_names,
        definition.encoding,
        blocks,
        whole.blocks,
        max((sample.keys for sample in good), default=0),
        round(sum(sample.data for sample in good) * scale + groups * frame),
        whole.bytes,
        sum(sample.seconds for sample in good) * scale / whole.workers,
        _usefulness(whole, samples, good),
    )


def _usefulness(whole: _Table, samples: Sequence[_Sample], good: Sequence[_Sample]) -> str:
    if not whole.blocks:
        return "the table has no rows that can be indexed"
    if not good:
        return f"no sampled block can be indexed: {samples[0].reason}"
    per_block = sum(sample.index_rows for sample in good) / sum(sample.blocks for sample in good)
    if whole.blocks == 1:
        return f"there is one block, with {per_block:,.0f} keys: an equality skips rows, not blocks"
    others = sum(sample.index_rows * (sample.blocks - 1) for sample in good)
    # How likely a key of one block is in another one, and so in what share of all blocks a key is on average.
    again = sum(sample.pairs for sample in good) / max(1, others)
    share = (1 + again * (whole.blocks - 1)) / whole.blocks
    keys = max(per_block / share, *(sample.keys for sample in good), 1)
    return (
        f"on average a key is in {share:.0%} of the blocks and selects {100 / keys:.2g} % of the rows: "
        f"an equality skips about {1 - share:.0%} of the blocks"
    )
