"""Find the blocks that can hold the first rows of a sorted scan.

A query sorts its rows and takes the first n rows. If all keys of a block come after the keys of n other rows, the query
does not need the block. The n other rows must certainly match: they are in fresh files whose lookup is exact. "After"
means strictly after by the first sort key. So other sort keys do not matter, and rows that tie with the last of the
first n rows are not left out.

Whether a block is left out depends also on other files than its own. So the caller who reads the remaining blocks must
check afterwards that all files of the lookups are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.blocks import Bounds
from hive_bitmap.core.index.manifest import INTEGERS, TIMES, bounded_column
from hive_bitmap.core.selecting.candidates import FINGERPRINT, Lookup, LookupResults
from hive_bitmap.core.selecting.lookup_units import Flags, Longs
from hive_bitmap.core.selecting.split_order import Piece
from hive_bitmap.core.selecting.table_files import FileRecords, TableFiles

_ENTRY = (*FINGERPRINT[1:], "bounded", "bounds")  # columns of a manifest, besides the path
# Ranks of sort keys. NULL comes before or after all values. A block without bounds has the first rank.
_ANY, _NULL_FIRST, _VALUE, _NULL_LAST = range(4)


@dataclass(frozen=True, kw_only=True)
class FirstRows:
    """The first rows of a scan, which a sorted query with a LIMIT needs.

    The rows are sorted by `column`, then by further keys. `rows` is the number of needed rows: LIMIT plus OFFSET.
    """

    column: str
    ascending: bool
    nulls_first: bool
    rows: int

    def __str__(self) -> str:
        direction, nulls = "ASC" if self.ascending else "DESC", "FIRST" if self.nulls_first else "LAST"
        return f"the first {self.rows:,} rows by {self.column} {direction} NULLS {nulls}"


@dataclass(frozen=True)
class _Keys:
    """Sort keys: pairs of a rank and a value.

    Keys are ordered by rank, then by value. The rank puts NULLs before or after all values. In a descending order, the
    value v is represented by ~v. The arrays have an item for each key.
    """

    rank: Longs
    value: Longs

    def after(self, rank: int, value: int) -> Flags:
        """Return which keys come strictly after the key (rank, value)."""
        after: Flags = (self.rank > rank) | ((self.rank == rank) & (self.value > value))
        return after


def leave_out(results: LookupResults, bounds: Sequence[Bounds], first: FirstRows) -> LookupResults | None:
    """Leave out the blocks that cannot hold any of the first rows.

    The returned results have no selected rows in these blocks. Return None if no block with selected rows can be left
    out, or if a looked-up file has deleted rows. `bounds` has, for each lookup, the bounds of the sort column in its
    blocks.
    """
    if not results.lookups or any(any(lookup.deletes) for lookup in results.lookups):
        return None
    counts = np.concatenate([result.counts for result in results.results])
    exact = np.concatenate([result.exact[lookup.unit.file] for lookup, result in results.pairs()])
    rows = np.concatenate([lookup.unit.rows for lookup in results.lookups])
    all_bounds = Bounds(
        *(np.concatenate([getattr(of_lookup, name) for of_lookup in bounds]) for name in ("nulls", "low", "high"))
    )
    last = _last_needed(all_bounds, rows, np.where(exact, counts, 0), first)
    if last is None:
        return None
    after = _smallest(all_bounds, rows, first).after(*last) & (counts > 0)
    if not after.any():
        return None
    edges = np.cumsum([len(lookup.unit.rows) for lookup in results.lookups])[:-1]
    bounded = [
        replace(result, counts=np.where(left_out, 0, result.counts))
        for result, left_out in zip(results.results, np.split(after, edges), strict=True)
    ]
    return replace(results, results=tuple(bounded))


def _last_needed(bounds: Bounds, rows: Longs, certain: Longs, first: FirstRows) -> tuple[int, int] | None:
    """Return the sort key (rank, value) up to which enough rows certainly match.

    The query needs `first.rows` rows. For each block, `rows` has the number of rows, and `certain` the number of rows
    that certainly match. Return None if the rows that certainly match may be too few.
    """
    keys, counts = _largest(bounds, rows, certain, first)
    order = np.lexsort((keys.value, keys.rank))
    enough = int(np.searchsorted(np.cumsum(counts[order]), first.rows))
    if enough >= len(order):
        return None
    place = order[enough]
    return int(keys.rank[place]), int(keys.value[place])


def _largest(bounds: Bounds, rows: Longs, certain: Longs, first: FirstRows) -> tuple[_Keys, Longs]:
    """Return upper bounds of the sort keys, each with a number of rows.

    The number says how many matching rows certainly have a sort key up to the bound. No row is counted for two bounds,
    so the numbers can be added up. The bound of a block is the key of its last value. If NULLs come last, a block has a
    second bound for its NULLs; otherwise a single NULL would make NULL the only bound of the block. `rows` has the
    number of rows of each block, and `certain` the number of its rows that certainly match.
    """
    is_known, has_values = bounds.nulls >= 0, (bounds.nulls >= 0) & (bounds.nulls < rows)
    value = np.where(has_values, bounds.high if first.ascending else ~bounds.low, 0)
    if first.nulls_first:
        counts = np.where(is_known, certain, 0)
        return _Keys(np.where(has_values, _VALUE, _NULL_FIRST), value), counts
    nulls = np.where(is_known, np.minimum(certain, bounds.nulls), 0)
    values = np.where(has_values, certain - nulls, 0)
    ranks = np.concatenate([np.full(len(rows), _VALUE), np.full(len(rows), _NULL_LAST)])
    return _Keys(ranks, np.concatenate([value, np.zeros(len(rows), np.int64)])), np.concatenate([values, nulls])


def _smallest(bounds: Bounds, rows: Longs, first: FirstRows) -> _Keys:
    """Return for each block a lower bound of its sort keys.

    No row of the block comes before this key in the order of `first`. `bounds` are the bounds of the sort column, and
    `rows` has the number of rows of each block.
    """
    is_known, has_values = bounds.nulls >= 0, (bounds.nulls >= 0) & (bounds.nulls < rows)
    has_nulls = is_known & (bounds.nulls > 0)
    only_null = _NULL_FIRST if first.nulls_first else _NULL_LAST
    begins_with_value = has_values & ~has_nulls if first.nulls_first else has_values
    value = bounds.low if first.ascending else ~bounds.high
    rank = np.where(begins_with_value, _VALUE, only_null)
    return _Keys(np.where(is_known, rank, _ANY), np.where(begins_with_value, value, 0))


def needed_pieces(results: LookupResults, pieces: Sequence[Piece]) -> list[Piece]:
    """Remove blocks without selected rows from the pieces of splits.

    The removed blocks include the blocks that `leave_out` has left out. A piece with removed blocks in the middle is
    divided.
    """
    needed = []
    for piece in pieces:
        blocks = np.flatnonzero(results.results[piece.lookup].counts[piece.first : piece.end] > 0) + piece.first
        runs = np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1) if len(blocks) else []
        needed += [replace(piece, first=int(run[0]), end=int(run[-1]) + 1) for run in runs]
    return needed


def is_bounded(column: Column) -> bool:
    """Return whether a build records bounds for the type of a column."""
    return column.type in (*INTEGERS, *TIMES)


def bounds_of(files: TableFiles, results: LookupResults, column: Column) -> list[Bounds]:
    """Return the bounds of a column for the blocks of each lookup.

    The bounds are collected from the manifests of all indexes. `results` are the results of looking up `files`.
    Recorded bounds are used for a file only if they were recorded with the fingerprint that was looked up.
    """
    bounds_of_lookups = []
    for lookup in results.lookups:
        bounds = Bounds(*(np.full(len(lookup.unit.rows), fill) for fill in (-1, 0, 0)))
        for records in files.records.values():
            _fill(bounds, lookup, records, bounded_column(column.name, column.type))
        bounds_of_lookups.append(bounds)
    return bounds_of_lookups


def _fill(bounds: Bounds, lookup: Lookup, records: FileRecords, name: str) -> None:
    """Copy recorded bounds of a lookup's blocks into `bounds`.

    `records` are the records of an index. `name` is the name of the column in the manifest (`manifest.bounded_column`).
    """
    fresh = np.flatnonzero(records.fresh[lookup.numbers])
    entries = records.covered.files.select(_ENTRY).take(pa.array(records.row[lookup.numbers][fresh]))
    same = [pc.equal(entries[field], lookup.described[field].take(pa.array(fresh))) for field in FINGERPRINT[1:]]
    names, name_edges = _lists(entries["bounded"])
    numbers, number_edges = _lists(entries["bounds"])
    place = np.flatnonzero(pc.equal(names, name).to_numpy(zero_copy_only=False))
    entry = np.searchsorted(name_edges, place, side="right") - 1
    edges = np.searchsorted(lookup.unit.file, np.arange(len(lookup.unit.paths) + 1))
    blocks = np.diff(edges)[fresh[entry]]
    is_complete = 3 * blocks * np.diff(name_edges)[entry] == np.diff(number_edges)[entry]
    is_valid = is_complete & reduce(pc.and_, same).to_numpy(zero_copy_only=False).astype(bool)[entry]
    entry, place, blocks = entry[is_valid], place[is_valid], blocks[is_valid]
    source = number_edges[entry] + 3 * blocks * (place - name_edges[entry])
    within = np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    target, source = (np.repeat(start, blocks) + within for start in (edges[fresh[entry]], source))
    values, step = numbers.to_numpy(zero_copy_only=False), np.repeat(blocks, blocks)
    for array, part in ((bounds.nulls, 0), (bounds.low, 1), (bounds.high, 2)):
        array[target] = values[source + part * step]


def _lists(column: pa.ChunkedArray) -> tuple[pa.Array, Longs]:
    """Return the items of a column's lists, and the offsets of the lists.

    List i has the items offsets[i] to offsets[i+1] (exclusive).
    """
    lists = column.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return lists.flatten(), np.concatenate([[0], np.cumsum(lengths)])
