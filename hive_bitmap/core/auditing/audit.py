"""Compare one shard with its base files in a Spark task.

Each block of each unchanged file is compared. A shard is sorted by key, so the index rows of a block are scattered over
the whole shard. A first pass over the shard finds the block of each index row, and how many bytes the index rows of
each block take. Each further pass over the shard collects the index rows of some consecutive blocks, about PASS_BYTES
in all. So memory is bounded, and most shards are read only twice. For an AGGREGATE index, the aggregates of whole files
are compared after the blocks, in passes of the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.auditing.base_file_check import COMPARED, DAMAGED, STALE, BaseFile, RecordedFile, open_base
from hive_bitmap.core.auditing.compare import Problems, block_aggregates, compare_block, compare_file
from hive_bitmap.core.auditing.stored_shard import OpenShard, StoredShard, opened
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import BUCKET, OFFSET
from hive_bitmap.core.index.shard import compact_schema
from hive_bitmap.core.indexing.computed_keys import KeyReader
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.errors import CorruptIndex, FileChanged, Undecodable

Longs = npt.NDArray[np.int64]
PASS_BYTES = 128 << 20  # bytes of index rows collected in one pass; a task holds up to three copies of them


@dataclass(frozen=True)
class ShardItem:
    """Work item of a task: a shard, and its base files in the manifest.

    `index` is the position of the shard's index among the indexes to compare.
    """

    index: int
    stored: StoredShard
    files: tuple[RecordedFile, ...]
    read_options: ReadOptions


@dataclass(frozen=True, kw_only=True)
class ShardAudit:
    """The result of comparing a shard.

    `files`, `blocks` and `rows` are the numbers of compared base files, blocks and base rows. `stale` is the number of
    files that changed after they were listed. `index` has the value of `ShardItem.index`.
    """

    index: int
    files: int
    blocks: int
    rows: int
    stale: int
    problems: Problems


def audit_shard(item: ShardItem) -> ShardAudit:
    """Compare a shard with its base files.

    Wrong, missing and damaged data is reported in the result, never raised. Raise StoreError if the store fails, which
    is not a problem of the index.
    """
    bases = [open_base(indexed_file, item.read_options) for indexed_file in item.files]
    problems = Problems()
    try:
        with opened(item.stored, problems) as shard:
            _audit(item, shard, bases, problems)
    except CorruptIndex as e:
        problems.add(str(e))
        bases = [replace(base, state=DAMAGED) if base.state == COMPARED else base for base in bases]
    unchanged = [base for base in bases if base.state != STALE and base.indexed_file.fingerprint.confirmed()]
    for base in unchanged:
        problems.add_all(base.problems, f"{base.path}: ")
    compared = [base.blocks for base in unchanged if base.state == COMPARED]
    return ShardAudit(
        index=item.index,
        files=len(compared),
        blocks=sum(len(blocks) for blocks in compared),
        rows=sum(int(blocks.rows.sum()) for blocks in compared),
        stale=sum(base.indexed_file.fresh for base in bases) - len(unchanged),
        problems=problems,
    )


def _audit(item: ShardItem, shard: OpenShard, bases: Sequence[BaseFile], problems: Problems) -> None:
    blocks_of = _block_finder(bases)
    first = np.cumsum([0, *(len(base.filled) for base in bases)]).tolist()
    size = np.zeros(first[-1])
    for group, rows in shard.row_groups():
        shard.check_statistics(problems, group, rows)
        block = blocks_of(rows)
        _check_blocks(problems, item.stored.path, rows, block)
        size += np.bincount(block + 1, minlength=len(size) + 1)[1:] * (rows.nbytes / max(1, rows.num_rows))
    for start, end in _passes(size):
        stored = _gather(shard.row_groups, shard.schema, blocks_of, start, end)
        for base, begin in zip(bases, first, strict=False):
            numbers = range(max(start, begin), min(end, begin + len(base.filled)))
            if base.state == COMPARED and numbers:
                _compare_blocks(item, base, [(int(base.filled[n - begin]), stored(n)) for n in numbers])
    if item.stored.definition.counts_files:
        _audit_files(item, shard, bases)


def _audit_files(item: ShardItem, shard: OpenShard, bases: Sequence[BaseFile]) -> None:
    """Compare the aggregates of each file in a shard of an AGGREGATE index."""
    paths = pa.array([base.path for base in bases], pa.string())

    def files_of(rows: pa.Table) -> Longs:
        return pc.index_in(rows[BUCKET.name], paths).fill_null(-1).to_numpy()

    size = np.zeros(len(bases))
    for _, rows in shard.rows_of_files():
        size += np.bincount(files_of(rows) + 1, minlength=len(bases) + 1)[1:] * (rows.nbytes / max(1, rows.num_rows))
    schema = compact_schema(item.stored.definition)
    for start, end in _passes(size):
        stored = _gather(shard.rows_of_files, schema, files_of, start, end)
        for number, base in enumerate(bases[start:end], start):
            if base.state == COMPARED:
                _compare_file(item, base, stored(number))


def _check_blocks(problems: Problems, path: str, rows: pa.Table, block: Longs) -> None:
    """Add a problem for each index row whose block is not in the manifest.

    `path` is the path of the shard, and `rows` has its index rows. `block` has the number of the block of each row; -1
    for an unknown block.
    """
    unknown = np.flatnonzero(block < 0)
    problems.add_many(
        len(unknown),
        lambda i: (
            f"shard {path} has a row for {rows[BUCKET.name][unknown[i]]} at {rows[OFFSET.name][unknown[i]]}, "
            "where the manifest has no block of this shard"
        ),
    )


def _block_finder(bases: Sequence[BaseFile]) -> Callable[[pa.Table], Longs]:
    """Return a function from index rows to block numbers.

    The function takes n index rows and returns n numbers (int64), -1 for an unknown block. The blocks with rows
    (`BaseFile.filled`) are numbered consecutively over all files.
    """
    paths = pa.array([base.path for base in bases], pa.string())
    file = np.repeat(np.arange(len(bases)), [len(base.filled) for base in bases])
    offset = np.concatenate([np.zeros(0, np.int64), *(base.blocks.offset[base.filled] for base in bases)])
    distinct, rank = np.unique(offset, return_inverse=True)
    block_keys = file * len(distinct) + rank
    order = np.argsort(block_keys)

    def blocks_of(rows: pa.Table) -> Longs:
        files = pc.index_in(rows[BUCKET.name], paths).fill_null(-1).to_numpy()
        offsets = rows[OFFSET.name].fill_null(-1).to_numpy()
        if not len(block_keys):
            return np.full(len(files), -1)
        ranks = np.minimum(np.searchsorted(distinct, offsets), len(distinct) - 1)
        row_keys = files * len(distinct) + ranks
        nearest = order[np.minimum(np.searchsorted(block_keys, row_keys, sorter=order), len(block_keys) - 1)]
        return np.where((files >= 0) & (distinct[ranks] == offsets) & (block_keys[nearest] == row_keys), nearest, -1)

    return blocks_of


def _passes(size: npt.NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Yield the range (start, end) of the blocks of each pass.

    The index rows of a range take about PASS_BYTES. `size` has the bytes of the index rows of each block.
    """
    part = (np.cumsum(size) - size) // PASS_BYTES
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    yield from pairwise([*starts.tolist(), len(size)])


def _gather(
    row_groups: Callable[[], Iterator[tuple[int, pa.Table]]],
    schema: pa.Schema,
    blocks_of: Callable[[pa.Table], Longs],
    start: int,
    end: int,
) -> Callable[[int], pa.Table]:
    """Read the index rows of a range of blocks, and group the rows by block.

    The range is from block `start` to before block `end`. `row_groups` yields the index rows in the schema `schema`.
    `blocks_of` returns the number of the block of each index row (`_block_finder`). Return a function from the number
    of a block to its index rows. Files may take the place of blocks.
    """
    parts, numbers = [schema.empty_table()], [np.zeros(0, np.int64)]
    for _, rows in row_groups():
        block = blocks_of(rows)
        selected = np.flatnonzero((block >= start) & (block < end))
        parts.append(rows.take(pa.array(selected)))
        numbers.append(block[selected])
    number = np.concatenate(numbers)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(start, end + 1))
    together = pa.concat_tables(parts).combine_chunks().take(pa.array(order))
    return lambda block: together.slice(ends[block - start], ends[block - start + 1] - ends[block - start])


def _compare_blocks(item: ShardItem, base: BaseFile, blocks: Sequence[tuple[int, pa.Table]]) -> None:
    format = item.read_options.file_format()
    try:
        handle = format.open_file(base.path)
        reader = KeyReader.of(item.stored.definition, item.read_options, base.path, handle, base.blocks)
        for block, stored in blocks:
            keys = reader.block(block)
            aggregated = reader.aggregated(block)
            block_problems = compare_block(item.stored.definition, keys, stored, aggregated)
            base.problems.add_all(block_problems, f"block at {base.blocks.offset[block]}: ")
    except Undecodable as e:
        base.problems.add(f"it is indexed, but cannot be read as Spark reads it: {e}")
    except (FileNotFoundError, FileChanged):
        base.state = STALE


def _compare_file(item: ShardItem, base: BaseFile, stored: pa.Table) -> None:
    definition, format = item.stored.definition, item.read_options.file_format()
    blocks, unread = list[pa.Table](), set[Column]()
    try:
        handle = format.open_file(base.path)
        reader = KeyReader.of(definition, item.read_options, base.path, handle, base.blocks)
        for block in base.filled.tolist():
            aggregated = reader.aggregated(block)
            unread |= set(definition.measured_columns) - set(aggregated)
            blocks.append(block_aggregates(definition, reader.block(block), aggregated))
    except Undecodable:
        return  # it is reported for its blocks
    except (FileNotFoundError, FileChanged):
        base.state = STALE
        return
    if blocks:
        base.problems.add_all(compare_file(definition, blocks, stored, unread))
