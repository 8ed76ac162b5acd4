"""Count the rows that satisfy a predicate, by the values of columns.

In this module, `keys` are the names of the grouping columns, in lower case. All grouping columns are in one index, or
they are in two indexes.

If one index has the grouping columns and all columns of the predicate, the cardinalities of its keys are added up. The
sums over all rows are cached. Bitmaps are read only for blocks with deleted rows: the bits that each key's bitmap
shares with the deleted rows are subtracted.

Otherwise the rows are selected first. Then the bits that each key's bitmap shares with the selection are counted, for
all keys of a row group of a shard at once. If the grouping columns are in two indexes, the selection is first split by
the keys of the index with few keys.

Every row of a block has exactly one key. So the counts of a block must add up to its selected rows. If the sum is
wrong, the index is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.answering.answer_size import TooLarge, nbytes
from hive_bitmap.core.bitmaps import selection
from hive_bitmap.core.index import lookup
from hive_bitmap.core.planning.settings import ANSWER_BYTES
from hive_bitmap.core.predicates.nodes import TRUE, Predicate, columns_of
from hive_bitmap.core.selecting.index_rows import (
    COUNT,
    GROUP,
    IndexRows,
    index_rows,
    is_true,
    require_complete,
    summed,
    values_at,
)
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.lookup_units import BlockNumbers, Flags, Longs, LookupUnit, deleted_bits
from hive_bitmap.core.selecting.select import Selection, select

MOST_PARTS = 16  # most keys of an index that splits a selection
Bits = npt.NDArray[np.uint8]
_NO_KEY = pa.table({"": [0]}).select([])


@dataclass(frozen=True)
class _Part:
    """The selected rows that have the same key in one index.

    If `key` has no columns, the part holds all selected rows.
    """

    key: pa.Table  # a single row
    bits: Bits


class RunningCounts:
    """A running sum of tables of keys and counts.

    Each table has a row for each key, with the key's COUNT. The sum takes at most `limit` bytes (`answer_size.nbytes`);
    beyond the limit, TooLarge is raised. `nothing` is an empty table with the columns of the sum.
    """

    def __init__(self, nothing: pa.Table, limit: int) -> None:
        self._tables, self._limit, self._pending = [nothing], limit, 0

    def merged(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Add up tables; the result has each key once."""
        return merge_counts(tables)

    def add(self, counts: pa.Table) -> None:
        """Add the counts of more rows.

        Raises TooLarge if there are more keys than the limit allows.
        """
        self._tables.append(counts)
        self._pending += nbytes(counts)
        if self._pending > self._limit:
            self._tables = [self.total()]
            self._pending = 0

    def total(self) -> pa.Table:
        """Return the sum of all counts, each key once.

        Raises TooLarge.
        """
        return require_small(self.merged(self._tables), self._limit)


def require_small(counts: pa.Table, limit: int) -> pa.Table:
    """Return `counts` unchanged; raise TooLarge if it takes more than `limit` bytes.

    A table without key columns is never too large.
    """
    if nbytes(counts) > limit and len(counts.schema) > 1:
        raise TooLarge("its keys take more than hive_bitmap.answer_bytes")
    return counts


def tally(
    unit: LookupUnit,
    predicate: Predicate,
    matching_keys: MatchingKeys,
    keys: Sequence[str],
    limit: int = ANSWER_BYTES,
    groups: Sequence[int] | None = None,
) -> pa.Table | None:
    """Count the matching rows of a unit by the values of columns.

    A row matches if the predicate is TRUE; `matching_keys` has the keys for which the leaves that only Spark evaluates
    are TRUE. The grouping columns are `keys`, lower-case names. The result has a row for each combination of values
    that occurs. Its columns are `keys`, in the Arrow types of the index, and COUNT (int64).

    If `groups` is given, it has the number of a group for each file of the unit. Each group of files is then counted
    separately, and the column GROUP (int64) comes before COUNT.

    The indexes of the grouping columns must cover every file of the unit, and the predicate must be exact in every
    file. Returns None if the grouping columns are in more than two indexes, or in two indexes that each have more than
    MOST_PARTS keys. Raises TooLarge if the result does not fit in `limit` bytes. Raises CorruptIndex or CorruptBitmap
    if an index is damaged.
    """
    columns = (*keys, *(column.lower() for column in columns_of(predicate)))
    grouped = [] if groups is None else [(GROUP, pa.int64())]
    fields = [*(unit.parts[key].key.with_name(key) for key in keys), *grouped, (COUNT, pa.int64())]
    nothing = pa.schema(fields).empty_table()
    group = None if groups is None else np.array(groups, np.int64)[unit.file]
    if len({unit.parts[column].index for column in columns}) == 1:
        sums = partial(_sums, unit, predicate, matching_keys, keys, nothing, limit, group)
        shards = unit.parts[keys[0]].shards
        if predicate != TRUE:
            return sums()
        deletes = tuple((path, deleted.id) for path, deleted in unit.deleted.items())
        cache_key = (shards, unit.paths, tuple(nothing.schema), deletes, None if groups is None else tuple(groups))
        return require_small(lookup.cached(cache_key, sums), limit)
    by_index = _by_index(unit, keys)
    if len(by_index) == 2:
        by_index.sort(key=lambda names: not _has_few_keys(unit, names))
    if len(by_index) > 2 or (len(by_index) == 2 and not _has_few_keys(unit, by_index[0])):
        return None
    selected = select(unit, predicate, matching_keys)
    if selected.damaged:
        raise next(iter(selected.damaged.values()))
    bits = selection.everything(selected.layout) if selected.bits is None else selected.bits
    parts = [_Part(_NO_KEY, bits)] if len(by_index) == 1 else _parts(selected, bits, by_index[0])
    counts = RunningCounts(nothing, limit)
    for table in _by_overlap(selected, parts, by_index[-1], group):
        counts.add(table)
    return counts.total()


def keys_of_group(
    unit: LookupUnit, key: str, predicate: Predicate, matching_keys: MatchingKeys, shard: tuple[str, int], group: int
) -> pa.Array:
    """Return the distinct values of a column in one row group.

    Only the values of matching rows are returned: rows for which the predicate is TRUE. `matching_keys` has the keys
    for which the leaves that only Spark evaluates are TRUE. `key` is the column, in lower case. `shard` (path and size
    in bytes) has the row group, and `group` is the position of the row group in the shard. The shard belongs to the
    index of this column, which must have all columns of the predicate. Raises CorruptIndex.
    """
    blocks = BlockNumbers(unit, unit.covered(unit.parts[key]))
    names = list(dict.fromkeys((key, *(column.lower() for column in columns_of(predicate)))))
    fields = [unit.parts[name].key for name in names]
    values, entries = lookup.entries_of_group(*shard, fields, group, unit.parts[key].kind)
    _, rows = blocks.find(entries.buckets, entries.offsets)
    true = is_true(predicate, dict(zip(names, values, strict=True)), matching_keys)[rows]
    return pc.unique(values_at(values[0], rows[true]))


def is_countable(unit: LookupUnit, keys: Sequence[str]) -> bool:
    """Return whether `tally` can count the rows of a unit by these columns.

    `tally` can do so if the columns `keys` are all in one index, or in two indexes of which one has few keys. The
    result is also true if one of the columns has no index in the unit: Spark then reads the files, without `tally`.
    """
    if any(key not in unit.parts for key in keys):
        return True  # Spark reads the files of such a unit, so `tally` counts nothing of it
    groups = _by_index(unit, keys)
    return len(groups) < 2 or (len(groups) == 2 and any(_has_few_keys(unit, group) for group in groups))


def _by_index(unit: LookupUnit, keys: Sequence[str]) -> list[list[str]]:
    """Group the columns `keys` by the index that has them.

    The result has the columns of each index.
    """
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(unit.parts[key].index, []).append(key)
    return list(groups.values())


def merge_counts(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up tables of keys and their counts.

    The result has each key once, and the columns of the first table.
    """
    schema = tables[0].schema
    if len(schema) == 1:
        total = sum(table[COUNT][0].as_py() for table in tables if table.num_rows)
        return pa.table({COUNT: [total] if total else []}, schema=schema)
    together = pa.concat_tables(table.select(schema.names) for table in tables)
    return grouped(together, schema.names[:-1], [(COUNT, "sum")]).cast(schema)


def grouped(rows: pa.Table, keys: Sequence[str], functions: Sequence[tuple[str, str]]) -> pa.Table:
    """Group rows by keys, and aggregate other columns.

    `functions` has pairs: the name of a column to aggregate, and an aggregate function of Arrow. The result has the
    columns of the keys, then the aggregated columns under their own names. If there are no keys, all rows are one
    group.
    """
    if not keys:
        in_one = rows.append_column("", pa.array(np.zeros(rows.num_rows, np.int8)))
        return grouped(in_one, [""], functions).drop_columns([""])
    numbers = {key: str(number) for number, key in enumerate(keys)}  # no name of a result, such as `count_sum`
    values = {column: rows[column] for column, _ in functions}
    for key, number in numbers.items():
        values[number] = rows[key]
        if pa.types.is_floating(rows[key].type):  # floats are grouped by their bits, because NaN differs from itself
            bits = pa.int32() if rows[key].type.bit_width == 32 else pa.int64()
            values[number] = rows[key].combine_chunks().view(bits)
    results = pa.table(values).group_by([*numbers.values()], use_threads=False).aggregate(functions)
    groups = {}
    for key, number in numbers.items():
        column, type = results[number].combine_chunks(), rows.schema.field(key).type
        groups[key] = column if column.type == type else column.view(type)
    return pa.table(groups | {column: results[f"{column}_{function}"] for column, function in functions})


def _sums(
    unit: LookupUnit,
    predicate: Predicate,
    matching_keys: MatchingKeys,
    keys: Sequence[str],
    nothing: pa.Table,
    limit: int,
    group: Longs | None,
) -> pa.Table:
    """Sum the cardinalities of the matching rows by key, without deleted rows.

    A row matches if the predicate is TRUE. `keys` are grouping columns of one index. `nothing` is an empty table with
    the columns of the result, which may take at most `limit` bytes. `group` has the number of each block's group; it is
    None if groups are not counted separately.
    """
    counts, in_blocks = RunningCounts(nothing, limit), np.zeros(len(unit.rows), np.int64)
    deleted = _DeletedRows(unit, unit.parts[keys[0]].encoding) if unit.deleted else None
    for rows in index_rows(unit, keys, predicate, matching_keys):
        in_blocks += np.bincount(rows.block, rows.cardinality, len(in_blocks)).astype(np.int64)
        live = rows.cardinality if deleted is None else rows.cardinality - deleted.of(rows)
        counts.add(summed(rows, np.where(rows.true, live, 0), group))
    require_complete(in_blocks, unit.rows, exact=predicate == TRUE)
    if deleted is not None:
        deleted.require_found(all=predicate == TRUE)
    return counts.total()


class _DeletedRows:
    """The deleted rows of a unit, to subtract from an index's counts."""

    def __init__(self, unit: LookupUnit, encoding: str) -> None:
        self._encoding, self._layout = encoding, selection.layout(unit.rows)
        self._bits = deleted_bits(unit, self._layout)
        self._expected = selection.counts(self._bits, self._layout)
        self._counted = np.zeros_like(self._expected)

    def of(self, rows: IndexRows) -> Longs:
        """Return for each index row the number of deleted rows with its key.

        Only the deleted rows of the index row's block count. The number is 0 for index rows for which the predicate is
        not TRUE.
        """
        counts = np.zeros(len(rows.block), np.int64)
        chosen = np.flatnonzero(rows.true & (self._expected[rows.block] > 0))
        if len(chosen):
            blocks = rows.block[chosen]
            bitmaps = lookup.bitmaps(*rows.shard, rows.group, self._encoding)
            [counts[chosen]] = bitmaps.shared(
                [self._bits], rows.number[chosen], self._layout.starts[blocks], self._layout.rows[blocks]
            )
            self._counted += np.bincount(blocks, counts[chosen], len(self._counted)).astype(np.int64)
        return counts

    def require_found(self, *, all: bool) -> None:
        """Raise CorruptIndex unless the calls of `of` have counted each deleted row once.

        If `all` is false, rows may be missing, but no block may have more than its deleted rows.
        """
        require_complete(self._counted, self._expected, exact=all)


def _by_overlap(
    selected: Selection, parts: Sequence[_Part], keys: Sequence[str], group: Longs | None
) -> Iterator[pa.Table]:
    """Count the rows of each part of a selection, by key.

    Yield tables of keys and counts, whose sum is the result. A count is the number of bits that a key's bitmap shares
    with the part. `parts` are the parts of `selected`. `keys` are grouping columns that are in one index. `group` has
    the number of each block's group; it is None if groups are not counted separately.
    """
    layout, encoding = selected.layout, selected.unit.parts[keys[0]].encoding
    expected = np.array([selection.counts(part.bits, layout) for part in parts], np.int64).reshape(
        len(parts), len(layout.rows)
    )  # for each part and block, the number of selected rows
    alive: Flags = expected.sum(axis=0) > 0
    in_blocks = np.zeros_like(expected)
    for rows in index_rows(selected.unit, keys, TRUE, {}):
        chosen = np.flatnonzero(alive[rows.block])
        if not len(chosen):
            continue
        blocks = rows.block[chosen]
        shared = lookup.bitmaps(*rows.shard, rows.group, encoding).shared(
            [part.bits for part in parts], rows.number[chosen], layout.starts[blocks], layout.rows[blocks]
        )
        for number, part in enumerate(parts):
            in_blocks[number] += np.bincount(blocks, shared[number], in_blocks.shape[1]).astype(np.int64)
            counts = np.zeros(len(rows.block), np.int64)
            counts[chosen] = shared[number]
            table = summed(rows, counts, group)
            for name in part.key.column_names:
                table = table.append_column(name, pa.repeat(part.key[name][0], table.num_rows))
            yield table
    require_complete(in_blocks, expected)


def _has_few_keys(unit: LookupUnit, keys: Sequence[str]) -> bool:
    """Return whether an index has at most MOST_PARTS distinct keys.

    `keys` are the grouping columns that the index has; only their values count as keys.
    """
    distinct: set[tuple[Any, ...]] = set()
    for rows in index_rows(unit, keys, TRUE, {}):
        distinct.update(_values_of(rows))
        if len(distinct) > MOST_PARTS:
            return False
    return True


def _parts(selected: Selection, bits: Bits, keys: Sequence[str]) -> list[_Part]:
    """Split the selected rows by their key in one index.

    `bits` are the rows that `selected` selects. `keys` are the grouping columns, which must be in one index.
    """
    unit, layout = selected.unit, selected.layout
    encoding = unit.parts[keys[0]].encoding
    by_key: dict[tuple[Any, ...], _Part] = {}
    for rows in index_rows(unit, keys, TRUE, {}):
        for run, value in enumerate(_values_of(rows)):
            part = by_key.setdefault(value, _Part(rows.keys.slice(run, 1), selection.nothing(layout)))
            chosen = np.flatnonzero(rows.run == run)
            blocks = rows.block[chosen]
            lookup.bitmaps(*rows.shard, rows.group, encoding).or_into(
                part.bits, rows.number[chosen], layout.starts[blocks], layout.rows[blocks], bits
            )
    for part in by_key.values():
        np.bitwise_and(part.bits, bits, out=part.bits)
    in_blocks = sum((selection.counts(part.bits, layout) for part in by_key.values()), np.zeros_like(unit.rows))
    require_complete(in_blocks, selection.counts(bits, layout))
    return list(by_key.values())


def _values_of(rows: IndexRows) -> Iterator[tuple[Any, ...]]:
    """Yield the distinct keys of a row group as tuples of Python values.

    The tuples are in the order of `rows.keys`.
    """
    return zip(*(column.to_pylist() for column in rows.keys.columns), strict=True)
