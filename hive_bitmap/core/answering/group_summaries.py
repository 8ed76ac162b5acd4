"""Summarize a column for each group of another column.

An example is `count(DISTINCT b) .. GROUP BY a`. The shards of an index with both columns are sorted. So the keys of all
shards can be merged by the first column, which brings the rows of each pair of keys together. Only a summary of each
group is kept, not the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.answering.answer_size import distinct_keys
from hive_bitmap.core.answering.extremes import index_covers
from hive_bitmap.core.answering.key_merge import DISTINCT, FEW_KEYS, MOST_SHARDS, merge
from hive_bitmap.core.answering.tally import grouped, require_small
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.predicates.nodes import TRUE
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.index_rows import COUNT, index_rows, require_complete, summed
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.lookup_units import Longs
from hive_bitmap.errors import CorruptIndex

MOST_PAIRS = 1 << 23  # most index rows: all rows of one key of the first column are in memory at once
HELD_ROWS = 1 << 16  # rows of groups that are collected before they are added up
_GROUP, _LOW, _HIGH, _NULLS = "group", "low", "high", "nulls"
_ADDED = [(_LOW, "min"), (_HIGH, "max"), (COUNT, "sum"), (DISTINCT, "sum"), (_NULLS, "sum")]


@dataclass(frozen=True, kw_only=True)
class GroupSummary:
    """The two columns of a query that needs only summaries of groups.

    The query needs a summary of `column` for each value of `group`. A summary has the smallest and the largest value,
    and the numbers of rows, NULLs and distinct values.
    """

    group: str
    column: str

    @property
    def columns(self) -> tuple[str, str]:
        """The columns in lower case, `group` first."""
        return self.group.lower(), self.column.lower()


def is_summarized(lookups: Sequence[Lookup], keys: Sequence[str], needed: GroupSummary | None) -> bool:
    """Return whether to summarize groups by merging the keys of all shards.

    The following must hold. `keys` (in lower case) are the columns of `needed`. One index has these columns and all
    columns of the predicates, and its shards are sorted by one of `keys`. There are more than FEW_KEYS pairs of keys,
    at most MOST_SHARDS shards, and at most MOST_PAIRS index rows. No row is deleted.
    """
    if needed is None or set(keys) != set(needed.columns) or len(keys) != 2 or not lookups:
        return False
    for lookup in lookups:
        parts = [lookup.unit.parts[key] for key in keys if index_covers(lookup, key)]
        if len(parts) < len(keys) or not all(part.counts for part in parts):
            return False
    if len({lookup.unit.parts[key].index for lookup in lookups for key in keys}) > 1:
        return False
    index_parts = [lookup.unit.parts[keys[0]] for lookup in lookups]
    if (
        sum(len(part.shards) for part in index_parts) > MOST_SHARDS
        or sum(part.entries for part in index_parts) > MOST_PAIRS
    ):
        return False
    try:
        return _first(lookups, needed) is not None and distinct_keys(lookups, keys) > FEW_KEYS
    except CorruptIndex:
        return False  # its files are read whole


def group_summaries(
    lookups: Sequence[Lookup], needed: GroupSummary, matching_keys: MatchingKeys, limit: int
) -> pa.Table:
    """Summarize a column for each group of another column.

    The lookups must satisfy `is_summarized`. The result has up to three rows for each group: for the smallest key, the
    largest key, and NULL. Its columns are the columns of `needed`, COUNT and DISTINCT. In COUNT and DISTINCT, only the
    sums over the rows of a group are right, not the number in each row (see `key_merge.summary`). Raises CorruptIndex,
    and TooLarge if more than HELD_ROWS rows are collected and their groups take more than `limit` bytes.
    """
    first = _first(lookups, needed)
    if first is None:
        raise CorruptIndex("its shards are not sorted alike")
    names = (first, *(name for name in needed.columns if name != first))
    units = [_Pairs(lookup, names, matching_keys) for lookup in lookups]
    field = lookups[0].unit.parts[first].key.with_name(first)
    sums: list[pa.Table] = []
    for table in merge([unit.of(shard) for unit in units for shard in unit.shards], field, distinct=False):
        sums.append(_sums(table, *needed.columns))
        if sum(part.num_rows for part in sums) > HELD_ROWS:
            sums = [require_small(_added(sums), limit)]
    for unit in units:
        unit.require_complete()
    fields = [lookups[0].unit.parts[name].key.with_name(name) for name in needed.columns]
    schema = pa.schema([*fields, (COUNT, pa.int64()), (DISTINCT, pa.int64())])
    return _rows(_added(sums), schema) if sums else schema.empty_table()


def _first(lookups: Sequence[Lookup], needed: GroupSummary) -> str | None:
    """Return the column of `needed` by which all shards are sorted.

    Returns None if there is no such column. Raises CorruptIndex.
    """
    for name in needed.columns:
        parts = [lookup.unit.parts[name] for lookup in lookups]
        if all(shards.is_sorted_by(*shard, part.key.name) for part in parts for shard in part.shards):
            return name
    return None


class _Pairs:
    """The pairs of keys in the files of one lookup, with their counts.

    Each row must be counted once, which `require_complete` checks at the end.
    """

    def __init__(self, lookup: Lookup, names: Sequence[str], matching_keys: MatchingKeys) -> None:
        self._lookup, self._names, self._matching_keys = lookup, names, matching_keys
        self._counted: Longs = np.zeros(len(lookup.unit.rows), np.int64)
        self._adding = Lock()

    @property
    def shards(self) -> tuple[tuple[str, int], ...]:
        return self._lookup.unit.parts[self._names[0]].shards if self._lookup.unit.rows.any() else ()

    def of(self, shard: tuple[str, int]) -> Iterator[pa.Table]:
        """Yield the pairs of a shard with their counts, sorted by the first column.

        Each table has the pairs of one row group.
        """
        unit, predicate = self._lookup.unit, self._lookup.predicate
        for rows in index_rows(unit, self._names, predicate, self._matching_keys, [shard]):
            added = np.bincount(rows.block, rows.cardinality, len(self._counted)).astype(np.int64)
            with self._adding:  # shards are read in threads
                self._counted += added
            yield summed(rows, np.where(rows.true, rows.cardinality, 0), None)

    def require_complete(self) -> None:
        """Raise CorruptIndex unless each row was counted once."""
        require_complete(self._counted, self._lookup.unit.rows, exact=self._lookup.predicate == TRUE)


def _sums(pairs: pa.Table, group: str, column: str) -> pa.Table:
    """Return a row for each group of `pairs`, with the columns of _ADDED.

    Each pair of keys must occur once in `pairs`.
    """
    keys, counts = pairs[column], pairs[COUNT]
    present = keys.is_valid()
    none = pa.scalar(0, pa.int64())
    rows = {
        _GROUP: pairs[group],
        _LOW: keys,
        _HIGH: keys,
        COUNT: pc.if_else(present, counts, none),
        DISTINCT: present.cast(pa.int64()),
        _NULLS: pc.if_else(present, none, counts),
    }
    return grouped(pa.table(rows), [_GROUP], _ADDED)


def _added(sums: Sequence[pa.Table]) -> pa.Table:
    return grouped(pa.concat_tables(sums), [_GROUP], _ADDED)


def _rows(sums: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return up to three rows for each group.

    The rows are for the smallest key of the group, for its largest key, and for NULL.
    """
    one, zero = pa.scalar(1, pa.int64()), pa.scalar(0, pa.int64())
    has_several = pc.greater(sums[DISTINCT], one)
    low = [sums[_GROUP], sums[_LOW], pc.subtract(sums[COUNT], pc.if_else(has_several, one, zero)),
           pc.subtract(sums[DISTINCT], pc.if_else(has_several, one, zero))]  # fmt: skip
    ones = pa.chunked_array([pa.array(np.ones(sums.num_rows, np.int64))])
    high = [sums[_GROUP], sums[_HIGH], ones, ones]
    nulls = [sums[_GROUP], pa.nulls(sums.num_rows, schema.field(1).type), sums[_NULLS], pc.subtract(ones, one)]
    chosen = (pc.greater(sums[DISTINCT], zero), has_several, pc.greater(sums[_NULLS], zero))
    tables = (pa.table(columns, schema.names).cast(schema) for columns in (low, high, nulls))
    return pa.concat_tables(table.filter(rows) for table, rows in zip(tables, chosen, strict=True))
