"""Comparing one shard with its base files, inside a Spark task: every block that is still as it was indexed.

A shard is sorted by key, so the rows of a block are spread over all of it. It is read once to see where the rows belong
and how large they are, then once more for each run of blocks whose rows fit PASS_BYTES: memory is bounded, and an
ordinary shard is read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.columns import Column
from hive_bitmap.errors import CorruptIndex, Undecodable
from hive_bitmap.formats import FORMATS, storage
from hive_bitmap.formats.blocks import Blocks
from hive_bitmap.index import checksums
from hive_bitmap.index.compare import compare_block
from hive_bitmap.index.definition import BUCKET, OFFSET, OFFSETS, Definition
from hive_bitmap.index.fingerprint import Fingerprint
from hive_bitmap.index.group import key_columns, key_fields, row_schema
from hive_bitmap.index.lookup import open_checked
from hive_bitmap.index.problems import Problems

Longs = npt.NDArray[np.int64]
COMPARED, STALE, DAMAGED = "compared", "stale", "damaged"
PASS_BYTES = 256 << 20  # of index rows held at a time


@dataclass(frozen=True)
class KnownFile:
    """A base file as the manifest has it, and whether a listing shows it unchanged."""

    fingerprint: Fingerprint
    blocks: Blocks
    indirect: frozenset[str] | None  # None: the table's columns are others now, so there is nothing to compare it with
    fresh: bool


@dataclass(frozen=True)
class ShardItem:
    """One shard as the manifest has it; it travels to a task. `files` are those that the manifest says it covers, and
    `sums` its checksums, if there are any.
    """

    index: int
    definition: Definition
    path: str
    size: int
    rows: int
    sums: Sequence[int] | None
    files: tuple[KnownFile, ...]
    format: str
    schema: tuple[Column, ...]
    time_zone: str


@dataclass(frozen=True)
class ShardAudit:
    """What the comparison of a shard found; `stale` counts files that are no longer as the listing showed them."""

    index: int
    files: int
    blocks: int
    rows: int
    stale: int
    problems: Problems


@dataclass
class _Base:
    """A base file in comparison; `blocks` are those it has now, or those of the manifest where it is not compared."""

    known: KnownFile
    blocks: Blocks
    state: str  # COMPARED; STALE: not the file that was indexed; DAMAGED: it, or its shard, cannot be read
    problems: Problems

    @cached_property
    def filled(self) -> Longs:
        """The numbers of the blocks that hold rows."""
        return np.flatnonzero(self.blocks.rows)


def audit_shard(item: ShardItem) -> ShardAudit:
    """Compare a shard with its base files. What is wrong, missing or damaged is told in the result, never raised."""
    bases = [_open_base(item, known) for known in item.files]
    problems = Problems()
    try:
        with _opened(item) as shard:
            if shard.file.metadata.num_rows != item.rows:
                problems.add(f"shard {item.path} has {shard.file.metadata.num_rows} rows instead of {item.rows}")
            _audit(shard, bases, problems)
    except CorruptIndex as e:
        problems.add(str(e))
        bases = [replace(base, state=DAMAGED) if base.state == COMPARED else base for base in bases]
    same = [base for base in bases if base.state != STALE and base.known.fingerprint.confirmed()]
    for base in same:
        problems.add_all(base.problems, f"{base.known.fingerprint.path}: ")
    compared = [base.blocks for base in same if base.state == COMPARED]
    return ShardAudit(
        item.index,
        len(compared),
        sum(len(blocks) for blocks in compared),
        sum(int(blocks.rows.sum()) for blocks in compared),
        sum(base.known.fresh for base in bases) - len(same),
        problems,
    )


def _open_base(item: ShardItem, known: KnownFile) -> _Base:
    """Look whether a file is still the one that was indexed, and whether its blocks lie where the manifest says."""
    problems = Problems()
    if not (known.fresh and known.fingerprint.confirmed()):
        return _Base(known, known.blocks, STALE, problems)
    try:
        format = FORMATS[item.format]
        handle = format.open_file(known.fingerprint.path)
        blocks = format.blocks(handle)
        indirect = format.indirect_columns(handle, key_columns(item.schema, item.schema, item.time_zone))
    except FileNotFoundError:
        return _Base(known, known.blocks, STALE, problems)
    except Undecodable as e:
        problems.add(f"it is indexed, but cannot be read as Spark reads it: {e}")
        return _Base(known, known.blocks, DAMAGED, problems)
    for what in ("offset", "length", "rows"):
        said, now = getattr(known.blocks, what).tolist(), getattr(blocks, what).tolist()
        if said != now:
            problems.add(f"the manifest says of its blocks: {what} {_short(said)}, but they have {_short(now)}")
    if known.indirect is not None and known.indirect != frozenset(indirect):
        problems.add(f"only Spark can read {sorted(indirect)}, but the manifest says {sorted(known.indirect)}")
    return _Base(known, blocks, COMPARED, problems)


def _short(numbers: Sequence[int]) -> str:
    return f"{list(numbers[:4])}{' ..' if len(numbers) > 4 else ''} ({len(numbers)})"


@contextmanager
def _opened(item: ShardItem) -> Iterator[_Shard]:
    """The shard, open; raises CorruptIndex where its bytes cannot be read."""
    with _reading(item.path):
        source = storage.open_input(item.path)
    with source:
        with _reading(item.path):
            if source.size() != item.size:
                raise CorruptIndex(f"shard {item.path} has {source.size()} bytes instead of {item.size}")
            metadata = checksums.footer_of(source, item.sums)
            file = open_checked(source, metadata, item.sums)
        yield _Shard(item, file)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn whatever Arrow says of damaged bytes into CorruptIndex."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as e:
        raise CorruptIndex(f"shard {path} cannot be read: {e}") from e


@dataclass(frozen=True)
class _Shard:
    item: ShardItem
    file: pq.ParquetFile

    def row_groups(self) -> Iterator[tuple[int, pa.Table]]:
        """Each row group with its number, one row a key and block (COMPACT is expanded). Raises CorruptIndex."""
        definition = self.item.definition
        schema = row_schema(definition)
        if definition.type == "COMPACT":
            schema = pa.schema([*key_fields(definition), BUCKET, OFFSETS])
        for group in range(self.file.num_row_groups):
            with _reading(self.item.path):
                rows = self.file.read_row_group(group)
                if rows.column_names != schema.names:
                    raise CorruptIndex(f"shard {self.item.path} has columns {rows.column_names}, not {schema.names}")
                rows = rows.cast(schema)
            yield group, _expanded(rows) if definition.type == "COMPACT" else rows


def _expanded(rows: pa.Table) -> pa.Table:
    offsets = rows[OFFSETS.name].combine_chunks()
    kept = rows.drop_columns([OFFSETS.name]).take(pc.list_parent_indices(offsets))
    return kept.append_column(OFFSET, pc.list_flatten(offsets))


def _audit(shard: _Shard, bases: Sequence[_Base], problems: Problems) -> None:
    place = _places(bases)
    first = np.cumsum([0, *(len(base.filled) for base in bases)]).tolist()
    weight = np.zeros(first[-1])
    for group, rows in shard.row_groups():
        with _reading(shard.item.path):
            _check_statistics(problems, shard.item, shard.file.metadata.row_group(group), rows)
        at = place(rows)
        _check_places(problems, shard.item, rows, at)
        weight += np.bincount(at + 1, minlength=len(weight) + 1)[1:] * (rows.nbytes / max(1, rows.num_rows))
    for start, end in _passes(weight):
        held = _gather(shard, place, start, end)
        for base, begin in zip(bases, first, strict=False):
            wanted = range(max(start, begin), min(end, begin + len(base.filled)))
            if base.state == COMPARED and wanted:
                _compare_blocks(shard.item, base, [(int(base.filled[n - begin]), held(n)) for n in wanted])


def _check_places(problems: Problems, item: ShardItem, rows: pa.Table, at: Longs) -> None:
    lost = np.flatnonzero(at < 0)
    problems.add_many(
        len(lost),
        lambda i: (
            f"shard {item.path} has a row for {rows[BUCKET.name][lost[i]]} at {rows[OFFSET.name][lost[i]]}, "
            "where the manifest knows no block of this shard"
        ),
    )


def _places(bases: Sequence[_Base]) -> Callable[[pa.Table], Longs]:
    """A function from index rows to the number of the block that each is of, counted over all files; -1 for none."""
    paths = pa.array([base.known.fingerprint.path for base in bases], pa.string())
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
    """Runs of blocks whose index rows take about PASS_BYTES each."""
    part = (np.cumsum(weight) - weight) // PASS_BYTES
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    yield from zip(starts.tolist(), [*starts[1:].tolist(), len(weight)], strict=True)


def _gather(shard: _Shard, place: Callable[[pa.Table], Longs], start: int, end: int) -> Callable[[int], pa.Table]:
    """A function from a block's number, start <= number < end, to its rows in the shard."""
    parts, numbers = [row_schema(shard.item.definition).empty_table()], [np.zeros(0, np.int64)]
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


def _compare_blocks(item: ShardItem, base: _Base, blocks: Sequence[tuple[int, pa.Table]]) -> None:
    columns = key_columns(item.definition.columns, item.schema, item.time_zone)
    try:
        handle = FORMATS[item.format].open_file(base.known.fingerprint.path)
        for block, stored in blocks:
            keys = FORMATS[item.format].key_columns(handle, block, columns)
            found = compare_block(item.definition, keys, stored)
            base.problems.add_all(found, f"block at {base.blocks.offset[block]}: ")
    except Undecodable as e:
        base.problems.add(f"it is indexed, but cannot be read as Spark reads it: {e}")
    except FileNotFoundError:
        base.state = STALE


def _check_statistics(problems: Problems, item: ShardItem, group: Any, rows: pa.Table) -> None:
    """Planning skips a row group by its statistics, so they must hold for its keys."""
    for number, name in enumerate(item.definition.column_names):
        column = group.column(number)
        stats = column.statistics if column.is_stats_set else None
        if stats is None:
            continue
        values = rows[name]
        good = not stats.has_null_count or (stats.null_count > 0) == (values.null_count > 0)
        if stats.has_min_max:
            low, high = (pa.scalar(bound, values.type) for bound in (stats.min, stats.max))
            inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
            good = good and pc.all(inside, min_count=0).as_py()
        if not good:
            problems.add(f"shard {item.path} has keys of {name} outside the statistics of their row group")
