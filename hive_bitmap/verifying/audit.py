"""Comparing one shard with its base files, inside a Spark task: every block that is still as it was indexed.

A shard is sorted by key, so the rows of a block are spread over all of it. It is read once to see where the rows belong
and how large they are, then once more for each run of blocks whose rows fit PASS_BYTES: memory is bounded, and an
ordinary shard is read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.building import staged_values
from hive_bitmap.columns import Column
from hive_bitmap.errors import CorruptIndex, FileChanged, Undecodable
from hive_bitmap.index.definition import BUCKET, OFFSET
from hive_bitmap.index.table_schema import key_columns
from hive_bitmap.verifying.compare import compare_block
from hive_bitmap.verifying.known_file import COMPARED, DAMAGED, STALE, BaseFile, KnownFile, open_base
from hive_bitmap.verifying.problems import Problems
from hive_bitmap.verifying.stored_shard import OpenShard, StoredShard, opened

Longs = npt.NDArray[np.int64]
PASS_BYTES = 128 << 20  # of index rows gathered at a time; a task holds up to three copies of them


@dataclass(frozen=True)
class ShardItem:
    """One shard and the files that the manifest says it covers; it travels to a task.

    `index` is the number of its index in the run. `format` is a key of `formats.FORMATS`, `schema` all data columns of
    the base table, `time_zone` that of the engine's JVM (empty: unknown), `staging` the folder of the values that Spark
    has read (empty for a format whose values Arrow reads).
    """

    index: int
    stored: StoredShard
    files: tuple[KnownFile, ...]
    format: str
    schema: tuple[Column, ...]
    time_zone: str
    staging: str = ""


@dataclass(frozen=True)
class ShardAudit:
    """What the comparison of a shard found: how many files, blocks and rows (of the base table) were compared.

    `stale` counts files that are no longer as the listing showed them, `index` is that of the ShardItem.
    """

    index: int
    files: int
    blocks: int
    rows: int
    stale: int
    problems: Problems


def audit_shard(item: ShardItem) -> ShardAudit:
    """Compare a shard with its base files. What is wrong, missing or damaged is told in the result, never raised.

    StoreError is: a store that fails says nothing of the index.
    """
    format = staged_values.reader(item.format, item.staging)
    bases = [open_base(known, format, item.schema, item.time_zone) for known in item.files]
    problems = Problems()
    try:
        with opened(item.stored, problems) as shard:
            _audit(item, shard, bases, problems)
    except CorruptIndex as e:
        problems.add(str(e))
        bases = [replace(base, state=DAMAGED) if base.state == COMPARED else base for base in bases]
    same = [base for base in bases if base.state != STALE and base.known.fingerprint.confirmed()]
    for base in same:
        problems.add_all(base.problems, f"{base.path}: ")
    compared = [base.blocks for base in same if base.state == COMPARED]
    return ShardAudit(
        item.index,
        len(compared),
        sum(len(blocks) for blocks in compared),
        sum(int(blocks.rows.sum()) for blocks in compared),
        sum(base.known.fresh for base in bases) - len(same),
        problems,
    )


def _audit(item: ShardItem, shard: OpenShard, bases: Sequence[BaseFile], problems: Problems) -> None:
    place = _places(bases)
    first = np.cumsum([0, *(len(base.filled) for base in bases)]).tolist()
    weight = np.zeros(first[-1])
    for group, rows in shard.row_groups():
        shard.check_statistics(problems, group, rows)
        at = place(rows)
        _check_places(problems, item.stored.path, rows, at)
        weight += np.bincount(at + 1, minlength=len(weight) + 1)[1:] * (rows.nbytes / max(1, rows.num_rows))
    for start, end in _passes(weight):
        held = _gather(shard, place, start, end)
        for base, begin in zip(bases, first, strict=False):
            wanted = range(max(start, begin), min(end, begin + len(base.filled)))
            if base.state == COMPARED and wanted:
                _compare_blocks(item, base, [(int(base.filled[n - begin]), held(n)) for n in wanted])


def _check_places(problems: Problems, path: str, rows: pa.Table, at: Longs) -> None:
    lost = np.flatnonzero(at < 0)
    problems.add_many(
        len(lost),
        lambda i: (
            f"shard {path} has a row for {rows[BUCKET.name][lost[i]]} at {rows[OFFSET.name][lost[i]]}, "
            "where the manifest knows no block of this shard"
        ),
    )


def _places(bases: Sequence[BaseFile]) -> Callable[[pa.Table], Longs]:
    """A function from n index rows to n numbers: of the block that each is of, counted over all files; -1 for none.

    Blocks without rows are not counted (`BaseFile.filled`).
    """
    paths = pa.array([base.path for base in bases], pa.string())
    file = np.repeat(np.arange(len(bases)), [len(base.filled) for base in bases])
    offset = np.concatenate([np.zeros(0, np.int64), *(base.blocks.offset[base.filled] for base in bases)])
    distinct, rank = np.unique(offset, return_inverse=True)
    known = file * len(distinct) + rank
    order = np.argsort(known)

    def place(rows: pa.Table) -> Longs:
        found = pc.index_in(rows[BUCKET.name], paths).fill_null(-1).to_numpy()
        offsets = rows[OFFSET.name].fill_null(-1).to_numpy()
        if not len(known):
            return np.full(len(found), -1)
        ranks = np.minimum(np.searchsorted(distinct, offsets), len(distinct) - 1)
        wanted = found * len(distinct) + ranks
        near = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
        return np.where((found >= 0) & (distinct[ranks] == offsets) & (known[near] == wanted), near, -1)

    return place


def _passes(weight: npt.NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Runs of blocks, (first, end) each, whose index rows take about PASS_BYTES; `weight` has those bytes by block."""
    part = (np.cumsum(weight) - weight) // PASS_BYTES
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    yield from pairwise([*starts.tolist(), len(weight)])


def _gather(shard: OpenShard, place: Callable[[pa.Table], Longs], start: int, end: int) -> Callable[[int], pa.Table]:
    """A function from a block's number, start <= number < end, to its rows in the shard."""
    parts, numbers = [shard.schema.empty_table()], [np.zeros(0, np.int64)]
    for _, rows in shard.row_groups():
        at = place(rows)
        wanted = np.flatnonzero((at >= start) & (at < end))
        parts.append(rows.take(pa.array(wanted)))
        numbers.append(at[wanted])
    number = np.concatenate(numbers)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(start, end + 1))
    together = pa.concat_tables(parts).combine_chunks().take(pa.array(order))
    return lambda block: together.slice(ends[block - start], ends[block - start + 1] - ends[block - start])


def _compare_blocks(item: ShardItem, base: BaseFile, blocks: Sequence[tuple[int, pa.Table]]) -> None:
    columns = key_columns(item.stored.definition.columns, item.schema, item.time_zone)
    try:
        format = staged_values.reader(item.format, item.staging)
        handle = format.open_file(base.path)
        for block, stored in blocks:
            keys = format.key_columns(handle, block, columns)
            found = compare_block(item.stored.definition, keys, stored)
            base.problems.add_all(found, f"block at {base.blocks.offset[block]}: ")
    except Undecodable as e:
        base.problems.add(f"it is indexed, but cannot be read as Spark reads it: {e}")
    except (FileNotFoundError, FileChanged):
        base.state = STALE
