"""Count keys that are too many to hold, by merging sorted shards.

A shard is sorted by its first key column. So the keys of all shards are merged by the key itself, and at most three row
groups of each shard are in memory: one is merged, the next has been read, and another is being read. Two results are
computed from the merged keys: a summary of a column, and the groups with the most or the fewest rows. Each result needs
all rows of a key, so nothing of a shard is left out before the merge.

A query that accepts any groups needs no merge: row groups are read until enough keys are found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.answering.answer_size import distinct_keys
from hive_bitmap.core.answering.extremes import index_covers
from hive_bitmap.core.answering.first_groups import Top, first_by_sum, first_groups
from hive_bitmap.core.answering.partial_sums import (
    chosen_partials,
    merge_sums,
    of_row_group,
    require_known,
    require_sums,
)
from hive_bitmap.core.answering.tally import merge_counts
from hive_bitmap.core.bitmaps import selection
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.index.aggregate_columns import Aggregate, merged
from hive_bitmap.core.parallel import ahead
from hive_bitmap.core.predicates.nodes import TRUE, Predicate, columns_of
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.index_rows import COUNT, index_rows, require_complete, summed
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.lookup_units import BlockNumbers, Longs, positions
from hive_bitmap.core.selecting.select import select
from hive_bitmap.errors import CorruptIndex

Bits = npt.NDArray[np.uint8]
FEW_KEYS = 10_000  # up to this many distinct keys, `tally` counts
MOST_SHARDS = 128  # most shards that are merged; three row groups of each take some 6 MB
READERS = 2  # threads that read the next row groups of shards during a merge
MOST_ROWS = 1 << 30  # most rows of all units; their selections take a bit a row
_UNSORTED = "its keys are not sorted"
DISTINCT = "distinct keys"  # the last column of a summary


def is_merged(lookups: Sequence[Lookup], keys: Sequence[str], columns: Collection[str], top: Top | None = None) -> bool:
    """Return whether to count keys by merging the keys of all shards.

    Keys are merged if there are more than FEW_KEYS of them, or if the query accepts any groups. The caller needs only
    the groups `top`; if `top` is None, it needs only a summary of each of `columns`. Keys are not merged if `keys` (in
    lower case) is not a single column of `columns`, or if a row of the files is deleted. Unless the query accepts any
    groups, all shards must be sorted by the key, and there must not be too many shards or rows.
    """
    if len(keys) != 1 or keys[0] not in columns or not lookups or any(any(lookup.deletes) for lookup in lookups):
        return False
    [key] = keys
    parts = [lookup.unit.parts.get(key) for lookup in lookups]
    if not all(part is not None and part.counts for part in parts):
        return False
    named_shards = [(part.key.name, shard) for part in parts if part is not None for shard in part.shards]
    rows = sum(int(lookup.unit.rows.sum()) for lookup in lookups)
    is_any = top is not None and top.is_any
    if not is_any and (len(named_shards) > MOST_SHARDS or rows > MOST_ROWS):
        return False
    try:
        is_sorted = is_any or all(shards.is_sorted_by(*shard, name) for name, shard in named_shards)
        return is_sorted and (distinct_keys(lookups, keys) > FEW_KEYS or is_any)
    except CorruptIndex:
        return False  # its files are read whole


def merged_answer(
    lookups: Sequence[Lookup],
    key: str,
    matching_keys: MatchingKeys,
    top: Top | None,
    aggregates: Sequence[Aggregate] = (),
) -> pa.Table:
    """Count the matching rows by a key, and add up aggregates.

    If `top` is None, return a summary of the key (`summary`). Otherwise, return a few groups, among them the groups
    that `top` asks for. With `aggregates`, `top` asks for groups by a sum. `matching_keys` has the keys for which the
    leaves that Spark evaluates are TRUE. The lookups must satisfy the conditions of `merged_counts`. Raises the errors
    of `merged_counts`. If `matching_keys` is empty, the answer depends on shards only, and is cached.
    """
    field = lookups[0].unit.parts[key].key.with_name(key)

    def compute() -> pa.Table:
        if top is not None and top.is_any:
            return some_groups(lookups, key, matching_keys, top.rows)
        counts = merged_counts(lookups, key, matching_keys, aggregates)
        if top is not None and aggregates:
            return first_by_sum(counts, top, field, aggregates)
        return summary(counts, field) if top is None else first_groups(counts, top, field)

    if matching_keys:
        return compute()
    read = tuple((lookup.unit.paths, lookup.predicate, _shards_of(lookup, key)) for lookup in lookups)
    return shards.cached((DISTINCT, read, key, field.type, top, tuple(aggregates)), compute)


def _shards_of(lookup: Lookup, key: str) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Return the shards of the key, and of the columns that the predicate tests.

    There is a tuple for each column, with the path and the size in bytes of each shard.
    """
    names = dict.fromkeys((key, *(column.lower() for column in columns_of(lookup.predicate))))
    return tuple(lookup.unit.parts[name].shards for name in names)


def merged_counts(
    lookups: Sequence[Lookup], key: str, matching_keys: MatchingKeys, aggregates: Sequence[Aggregate] = ()
) -> Iterator[pa.Table]:
    """Count the matching rows of each key, and add up aggregates.

    Each key is yielded once. The tables have the columns `key` (in lower case, in the Arrow type of the index), COUNT
    (int64), and the stored columns of `aggregates`. All keys of a table are larger than all keys of the preceding
    tables; NULL comes last. The predicate of each lookup must be exact in every file, and the index of each lookup must
    be sorted by the key (`is_merged`). With `aggregates`, the index of the key must hold these, and have all columns of
    the predicate. `matching_keys` has the keys for which the leaves that Spark evaluates are TRUE.

    Raises CorruptIndex or CorruptBitmap if an index is damaged, at the latest after the last table. Raises NotSummed if
    an aggregate is unknown for some rows, and its subclass TooWide if a sum has too many digits.
    """
    units = [_CountedUnit(lookup, key, matching_keys, aggregates) for lookup in lookups]
    field = lookups[0].unit.parts[key].key.with_name(key)
    yield from merge([unit.counted(shard) for unit in units for shard in unit.shards], field, aggregates)
    for unit in units:
        unit.require_complete()


def some_groups(lookups: Sequence[Lookup], key: str, matching_keys: MatchingKeys, rows: int) -> pa.Table:
    """Return `rows` groups, or all groups if there are fewer.

    The lookups must satisfy the conditions of `merged_counts`. `matching_keys` has the keys for which the leaves that
    Spark evaluates are TRUE. The columns of the result are `key` and COUNT (int64); the keys are in any order. Reading
    stops once there are enough groups, so COUNT may be too small; it is at least 1. Raises the errors of
    `merged_counts`. Whether each row was counted once is checked only for the lookups that were read to the end.
    """
    field = lookups[0].unit.parts[key].key.with_name(key)
    groups = pa.schema([field, (COUNT, pa.int64())]).empty_table()
    for lookup in lookups:
        unit = _CountedUnit(lookup, key, matching_keys)
        for table in chain.from_iterable(map(unit.counted, unit.shards)):
            groups = merge_counts([groups, table.cast(groups.schema)]).slice(0, rows)
            if groups.num_rows >= rows:
                return groups
        unit.require_complete()
    return groups


def merge(
    runs: Sequence[Iterator[pa.Table]],
    field: pa.Field,
    aggregates: Sequence[Aggregate] = (),
    *,
    distinct: bool = True,
) -> Iterator[pa.Table]:
    """Merge runs of sorted keys with their COUNTs and aggregates, NULL last.

    `field` is the column of the keys. A run yields tables of distinct keys in ascending order. A table may begin with
    the last key of the preceding table. All keys of a merged table are larger than all keys of the preceding merged
    tables; within a merged table, keys are in any order. `distinct` must be False if the tables have a second key
    column, because a table of a run may then have a key of the first column several times. Raises CorruptIndex if the
    keys of a run are not sorted.
    """
    with ThreadPoolExecutor(READERS) as pool:
        sorted_runs = [_Run(ahead(run, pool), distinct=distinct) for run in runs]
        while alive := [run for run in sorted_runs if run.table is not None]:
            bound = pc.min(pa.array([run.table[0][-1] for run in alive if run.table is not None], field.type))
            pieces = [piece for run in alive for piece in run.take_until(bound)]
            yield pieces[0] if len(pieces) == 1 and distinct else _together(pieces, aggregates)
    if nulls := [table for run in sorted_runs for table in run.nulls]:
        yield _together(nulls, aggregates)


def _together(tables: Sequence[pa.Table], aggregates: Sequence[Aggregate]) -> pa.Table:
    return merge_sums(tables, aggregates) if aggregates else merge_counts(tables)


class _CountedUnit:
    """The counts of the keys in the files of one lookup.

    `counted` yields the keys of a shard with their counts, a row group at a time, in ascending order; NULL comes last.
    Each selected row must be counted once, which `require_complete` checks at the end: for each block if the lookup has
    a predicate, else for each file. Without a predicate, neither offsets nor bitmaps are read.
    """

    def __init__(
        self, lookup: Lookup, key: str, matching_keys: MatchingKeys, aggregates: Sequence[Aggregate] = ()
    ) -> None:
        self._unit, self._key, self._part = lookup.unit, key, lookup.unit.parts[key]
        self._aggregates = aggregates
        self._is_exact, self._expected = True, self._unit.rows
        self._covered, self._layout = self._unit.covered(self._part), selection.layout(self._unit.rows)
        self.counted: Callable[[tuple[str, int]], Iterator[pa.Table]]
        if lookup.predicate == TRUE:
            self.counted = self._all_rows
            self._expected = np.bincount(self._unit.file, self._unit.rows, len(self._unit.paths)).astype(np.int64)
        elif index_covers(lookup, key):
            self.counted = partial(self._rows_of_keys, lookup.predicate, matching_keys)
            self._is_exact = False  # keys that do not match are not read
        else:
            selected = select(self._unit, lookup.predicate, matching_keys)
            if selected.damaged:
                raise next(iter(selected.damaged.values()))
            bits = selection.everything(self._layout) if selected.bits is None else selected.bits
            self.counted = partial(self._selected_rows, bits)
            self._expected = selection.counts(bits, self._layout)
        self._counted, self._adding = np.zeros(len(self._expected), np.int64), Lock()

    @property
    def shards(self) -> tuple[tuple[str, int], ...]:
        return self._part.shards if self._expected.any() else ()

    def _all_rows(self, shard: tuple[str, int]) -> Iterator[pa.Table]:
        paths = pa.array(self._unit.paths, pa.string())
        fields = [aggregate.field for aggregate in self._aggregates]
        read = shards.counted_keys(*shard, self._part.key, self._part.kind, fields)
        for keys, buckets, _, cardinality, stored in read:
            file = positions(buckets, paths)
            chosen = np.flatnonzero((file >= 0) & self._covered[file])
            self._add(file[chosen], cardinality[chosen])
            counted, run = _of_runs(keys, chosen, cardinality[chosen], self._key)
            if self._aggregates:
                stored = stored.take(pa.array(chosen))
                require_known(stored, self._aggregates, cardinality[chosen])
                added = merged(self._aggregates, stored, run)
                require_sums(added, self._aggregates)
                counted = pa.table([*counted.columns, *added.columns], [*counted.column_names, *added.column_names])
            yield counted

    def _rows_of_keys(
        self, predicate: Predicate, matching_keys: MatchingKeys, shard: tuple[str, int]
    ) -> Iterator[pa.Table]:
        for rows in index_rows(self._unit, [self._key], predicate, matching_keys, [shard]):
            self._add(rows.block, rows.cardinality)
            if not self._aggregates:
                yield summed(rows, np.where(rows.true, rows.cardinality, 0), None)
                continue
            stored = chosen_partials(rows, self._aggregates)
            require_known(stored, self._aggregates, rows.cardinality[rows.true])
            yield of_row_group(rows, stored, [self._key], None, self._aggregates)

    def _selected_rows(self, bits: Bits, shard: tuple[str, int]) -> Iterator[pa.Table]:
        numbers = BlockNumbers(self._unit, self._covered)
        for group, (keys, buckets, offsets, _, _) in enumerate(shards.counted_keys(*shard, self._part.key)):
            blocks, rows = numbers.find(buckets, offsets)
            alive = self._expected[blocks] > 0
            blocks, rows = blocks[alive], rows[alive]
            if not len(rows):
                continue
            bitmaps = shards.bitmaps(*shard, group, self._part.encoding)
            [counts] = bitmaps.shared([bits], rows, self._layout.starts[blocks], self._layout.rows[blocks])
            self._add(blocks, counts)
            shared = np.flatnonzero(counts)
            yield _of_runs(keys, rows[shared], counts[shared], self._key)[0]

    def _add(self, places: Longs, counts: Longs) -> None:
        """Add counts to the numbers of rows counted so far.

        `places` has an item for each of `counts`: the position of a block in the unit if the lookup has a predicate,
        else the position of a file in the unit.
        """
        added = np.bincount(places, counts, len(self._counted)).astype(np.int64)
        with self._adding:  # shards are read in threads
            self._counted += added

    def require_complete(self) -> None:
        """Raise CorruptIndex unless each selected row was counted once."""
        require_complete(self._counted, self._expected, exact=self._is_exact)


def _of_runs(keys: pa.Array, rows: Longs, counts: Longs, name: str) -> tuple[pa.Table, Longs]:
    """Add up the counts of neighbouring index rows that have the same key.

    Return the keys with their counts, and for each index row the position of its key among the returned keys. `keys`
    has the keys of a row group. `rows` has the positions in `keys` of the index rows to count, in ascending order, and
    `counts` has their counts. In the result, the column of the keys is called `name`. A key is in the result more than
    once if its rows are not neighbours.
    """
    keys = keys if len(rows) == len(keys) else keys.take(pa.array(rows))
    changed = np.ones(len(keys), bool)
    if len(keys) > 1:
        differs = pc.fill_null(pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)), False)
        present = keys.is_valid().to_numpy(zero_copy_only=False)  # NULLs that are neighbours are a run
        changed[1:] = differs.to_numpy(zero_copy_only=False) | (present[1:] != present[:-1])
    first = np.flatnonzero(changed)
    sums = np.add.reduceat(counts, first) if len(first) else counts
    return pa.table({name: keys.take(pa.array(first)), COUNT: sums}), np.cumsum(changed) - 1


class _Run:
    """The sorted keys of a shard.

    `table` has the keys of one row group with their COUNTs. At the end of the shard, `table` is None. `nulls` has the
    tables of the rows whose key is NULL, as far as the shard has been read.
    """

    def __init__(self, tables: Iterator[pa.Table], *, distinct: bool = True) -> None:
        self._tables, self.nulls = tables, list[pa.Table]()
        self._in_order = pc.less if distinct else pc.less_equal
        self._last: pa.Scalar | None = None
        self.table = self._next()

    def take_until(self, bound: pa.Scalar) -> Iterator[pa.Table]:
        """Yield the keys up to and including `bound`; keep the later keys."""
        while self.table is not None:
            taken = int(pc.sum(pc.less_equal(self.table[0], bound)).as_py())
            if taken:
                yield self.table.slice(0, taken)
            if taken < self.table.num_rows:
                self.table = self.table.slice(taken)
                return
            self.table = self._next()  # it may begin with the last key of this one

    def _next(self) -> pa.Table | None:
        for table in self._tables:
            if table[0].null_count:
                present = table[0].is_valid()
                self.nulls.append(table.filter(pc.invert(present)))
                table = table.filter(present)
            if table.num_rows:
                self._require_sorted(table[0])
                return table
        return None

    def _require_sorted(self, keys: pa.ChunkedArray) -> None:
        """Raise CorruptIndex unless keys ascend, in this table and from the preceding table."""
        ascending = pc.all(self._in_order(keys.slice(0, len(keys) - 1), keys.slice(1)), min_count=0).as_py()
        if not ascending or (self._last is not None and not pc.less_equal(self._last, keys[0]).as_py()):
            raise CorruptIndex(_UNSORTED)
        self._last = keys[-1]


def summary(merged: Iterable[pa.Table], field: pa.Field) -> pa.Table:
    """Summarize the keys of a column in at most three rows.

    The rows are for the smallest key, for the largest key, and for NULL if there are rows without a key. `merged` has
    all keys, as `merge` yields them. `field` is the column of the keys. In the columns COUNT and DISTINCT of the
    result, only the sums over the rows are right, not the number in each row. The sum of COUNT is the number of counted
    rows; without the row of NULL, it is the number of rows with a key. The sum of DISTINCT is the number of distinct
    keys.
    """
    low = high = pa.scalar(None, field.type)
    rows = distinct = nulls = 0
    for table in merged:
        keys, count = table[0], int(pc.sum(table[COUNT]).as_py())
        if keys[0].is_valid:
            ends = pc.min_max(keys)
            low, high = low if low.is_valid else ends["min"], ends["max"]
            rows, distinct = rows + count, distinct + len(keys)
        else:
            nulls += count
    summary_rows = []
    if distinct:
        summary_rows.append((low, rows - 1, distinct - 1) if distinct > 1 else (low, rows, 1))
    if distinct > 1:
        summary_rows.append((high, 1, 1))
    if nulls:
        summary_rows.append((pa.scalar(None, field.type), nulls, 0))
    schema = pa.schema([field, (COUNT, pa.int64()), (DISTINCT, pa.int64())])
    return pa.table(
        [pa.array([row[at] for row in summary_rows], schema.types[at]) for at in range(len(schema))], schema
    )
