"""Add up the partial aggregates of an index by key, in exact arithmetic.

The rows of an index may hold the count, sum, minimum and maximum of other columns, for each key in each block or file
(`aggregate_columns`). If one index has all keys and all columns of the predicate, these partial aggregates answer a
query without bitmaps. If other indexes test the predicate, the partial aggregates answer for the blocks of which all
rows or no rows are selected. A file is left out if the index does not know its values, or if only some rows of a block
are selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.answering.tally import RunningCounts, grouped, require_small
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.index.aggregate_columns import SUM_DIGITS, Aggregate, fitting, summable
from hive_bitmap.core.planning.settings import ANSWER_BYTES
from hive_bitmap.core.predicates.nodes import TRUE, Predicate
from hive_bitmap.core.selecting.candidates import Lookup, is_tested_elsewhere, look_up, restrict
from hive_bitmap.core.selecting.index_rows import COUNT, GROUP, INCONSISTENT, IndexRows, index_rows, require_complete
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.lookup_units import ANY_KEY, Flags, Longs, LookupUnit
from hive_bitmap.errors import CorruptIndex, Unsupported

_CODE = "code"


class NotSummed(Unsupported):
    """An index does not have the sums of all rows."""


class TooWide(NotSummed):
    """A sum has more digits than an index stores."""


class _UnknownValues(Exception):
    """The stored aggregates of some files do not suffice.

    `files` has a flag for each file of the unit. It is true if aggregates of the file are unknown, if only some rows of
    one of its blocks are selected, or if an index of the file is damaged.
    """

    def __init__(self, files: Flags) -> None:
        super().__init__("the values of some files are unknown")
        self.files = files


def add_up(
    lookup: Lookup,
    matching_keys: MatchingKeys,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate],
    limit: int = ANSWER_BYTES,
    groups: Sequence[int] | None = None,
) -> tuple[pa.Table | None, tuple[int, ...]]:
    """Add up the aggregates of the matching rows by key.

    Return the sums, and the positions in `LookupUnit.paths` of the files that are left out. The sums are None if all
    files are left out.

    The unit of `lookup` must have the index with the aggregates under the name ANY_KEY. This index must cover every
    file, and have the columns `keys` (in lower case) and the aggregates, among them the count of each aggregated
    column. The predicate must be exact in every file, and no row may be deleted. `matching_keys` has the keys for which
    the leaves that only Spark evaluates are TRUE.

    The sums have a row for each key that occurs. Their columns are `keys`, COUNT (int64) and the stored columns of the
    aggregates. If `groups` is given, it has the number of a group for each file of the unit. Each group of files is
    then added up separately, and GROUP (int64) comes before COUNT. Raises TooWide, TooLarge for more keys than fit in
    `limit` bytes, and CorruptIndex.
    """
    files = range(len(lookup.unit.paths))
    try:
        return _sums(lookup, matching_keys, keys, aggregates, limit, groups), ()
    except _UnknownValues as e:
        known_files = np.flatnonzero(~e.files).tolist()
        left_out = tuple(file for file in files if e.files[file])
    if not known_files:
        return None, left_out
    groups = None if groups is None else [groups[file] for file in known_files]
    return _sums(restrict(lookup, known_files), matching_keys, keys, aggregates, limit, groups), left_out


class RunningSums(RunningCounts):
    """A running sum of tables.

    The tables have the keys, COUNT and the stored columns of `aggregates`.
    """

    def __init__(self, nothing: pa.Table, limit: int, aggregates: Sequence[Aggregate]) -> None:
        super().__init__(nothing, limit)
        self._aggregates = aggregates

    def merged(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Add up tables; the result has each key once. Raises TooWide."""
        return merge_sums(tables, self._aggregates)


def merge_sums(tables: Sequence[pa.Table], aggregates: Sequence[Aggregate]) -> pa.Table:
    """Add up tables of keys, COUNT and partial aggregates.

    The result has each key once, and the columns of the first table. Raises TooWide.
    """
    schema = tables[0].schema
    stored = {aggregate.field.name: aggregate for aggregate in aggregates}
    together = pa.concat_tables([table.select(schema.names) for table in tables]).combine_chunks()
    require_sums(together, aggregates)
    functions = {COUNT: "sum"}
    for name, aggregate in stored.items():
        functions[name] = "sum" if aggregate.function == "count" else aggregate.function
        if aggregate.function == "sum" and together.num_rows:
            place = schema.get_field_index(name)
            together = together.set_column(place, name, summable(together[name], together.num_rows))
    keys = [name for name in schema.names if name not in functions]
    merged = grouped(together, keys, list(functions.items()))
    columns = [merged[name].combine_chunks() for name in schema.names]
    fitted = [
        fitting(column, field.type) if field.name in stored else column
        for column, field in zip(columns, schema, strict=True)
    ]
    sums = pa.Table.from_arrays(fitted, schema=schema)
    require_sums(sums, aggregates)
    return sums


def require_sums(rows: pa.Table, aggregates: Sequence[Aggregate]) -> None:
    """Raise TooWide if a sum is NULL although values were added."""
    for aggregate in aggregates:
        if aggregate.function == "sum":
            count = rows[Aggregate("count", aggregate.column).field.name]
            if pc.any(pc.and_(pc.is_null(rows[aggregate.field.name]), pc.greater(count, 0)), min_count=0).as_py():
                raise TooWide(f"{aggregate} has more than {SUM_DIGITS} digits")


def _sums(
    lookup: Lookup,
    matching_keys: MatchingKeys,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate],
    limit: int,
    groups: Sequence[int] | None,
) -> pa.Table:
    """Add up the aggregates of the matching rows of a lookup, by key.

    The arguments have the meaning of `add_up`. Raises _UnknownValues, and the errors of `add_up`.
    """
    unit, predicate = lookup.unit, lookup.predicate
    grouping = [] if groups is None else [pa.field(GROUP, pa.int64())]
    fields = [*(unit.parts[key].key.with_name(key) for key in keys), *grouping, pa.field(COUNT, pa.int64())]
    schema = pa.schema([*fields, *(aggregate.field for aggregate in aggregates)])
    if is_tested_elsewhere(lookup):
        blocks = _whole_blocks(lookup, matching_keys)
        return _all_sums(unit, TRUE, {}, keys, aggregates, schema, limit, groups, blocks)
    compute = partial(_all_sums, unit, predicate, matching_keys, keys, aggregates, schema, limit, groups)
    if predicate != TRUE:
        return compute()
    numbers = None if groups is None else tuple(groups)
    cache_key = (unit.parts[ANY_KEY].shards, unit.paths, tuple(schema), numbers)
    return require_small(shards.cached(cache_key, compute), limit)


def _whole_blocks(lookup: Lookup, matching_keys: MatchingKeys) -> Flags:
    """Return for each block whether all of its rows are selected.

    Of all other blocks, no row is selected. `matching_keys` has the keys for which the leaves that only Spark evaluates
    are TRUE. Raises _UnknownValues for files with a block of which only some rows are selected, and for files of a
    damaged index.
    """
    selected = look_up(lookup, matching_keys)
    if not selected.exact.all():
        raise _UnknownValues(~selected.exact)
    return selected.counts > 0


def _all_sums(
    unit: LookupUnit,
    predicate: Predicate,
    matching_keys: MatchingKeys,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate],
    schema: pa.Schema,
    limit: int,
    groups: Sequence[int] | None,
    blocks: Flags | None = None,
) -> pa.Table:
    """Add up the aggregates of a unit whose index has all tested columns.

    `unit` and `predicate` stand for the lookup of `add_up`; the other arguments mean the same as there. `schema` is the
    schema of the result. If `blocks` are given, all rows of these blocks count and no others; the predicate is then
    TRUE. Raises _UnknownValues, and the errors of `add_up`.
    """
    group = None if groups is None else np.array(groups, np.int64)[unit.file]
    sums = RunningSums(schema.empty_table(), limit, aggregates)
    in_blocks, unknown = np.zeros(len(unit.rows), np.int64), np.zeros(len(unit.paths), bool)
    for rows in index_rows(unit, list(keys) or [ANY_KEY], predicate, matching_keys):
        in_blocks += np.bincount(rows.block, rows.cardinality, len(in_blocks)).astype(np.int64)
        if blocks is not None:
            rows = replace(rows, true=blocks[rows.block])
        chosen, stored = np.flatnonzero(rows.true), chosen_partials(rows, aggregates)
        is_unknown = _unknown(stored, aggregates, rows.cardinality[chosen])
        unknown[unit.file[rows.block[chosen[is_unknown]]]] = True
        if not unknown.any():
            sums.add(of_row_group(rows, stored, keys, group, aggregates))
    require_complete(in_blocks, unit.rows, exact=predicate == TRUE)
    if unknown.any():
        raise _UnknownValues(unknown)
    return sums.total()


def _unknown(stored: pa.Table, aggregates: Sequence[Aggregate], rows: Longs) -> Flags:
    """Return for each index row whether the values of an aggregated column are unknown.

    The values are unknown if the stored count of the column is NULL. `rows` has the number of base rows of each index
    row. Raises CorruptIndex if a stored count exceeds the number of base rows.
    """
    unknown = np.zeros(stored.num_rows, bool)
    for aggregate in aggregates:
        if aggregate.function == "count":
            counts = stored[aggregate.field.name]
            unknown |= counts.is_null().to_numpy()
            if (pc.fill_null(counts, 0).to_numpy() > rows).any():
                raise CorruptIndex(INCONSISTENT)
    return unknown


def require_known(stored: pa.Table, aggregates: Sequence[Aggregate], rows: Longs) -> None:
    """Raise NotSummed if an index row has unknown values of an aggregated column.

    `stored` has the aggregates of the index rows, and `rows` the number of base rows of each index row. Raises
    CorruptIndex if a stored count exceeds this number.
    """
    if _unknown(stored, aggregates, rows).any():
        raise NotSummed("the values of some files are unknown")


def chosen_partials(rows: IndexRows, aggregates: Sequence[Aggregate]) -> pa.Table:
    """Return the aggregates of the index rows whose key satisfies the predicate."""
    fields = [aggregate.field for aggregate in aggregates]
    return shards.stored_columns(*rows.shard, rows.group, fields).take(pa.array(rows.number[rows.true]))


def of_row_group(
    rows: IndexRows,
    stored: pa.Table,
    keys: Sequence[str],
    group: Longs | None,
    aggregates: Sequence[Aggregate],
) -> pa.Table:
    """Add up the aggregates of a row group of a shard.

    Only index rows whose key satisfies the predicate count. `stored` has their aggregates (`chosen_partials`). `group`
    has the number of each block's group; None if groups of files are not added up separately.
    """
    chosen = np.flatnonzero(rows.true)
    run = rows.run[chosen] if keys else np.zeros(len(chosen), np.int64)
    width = 1 if group is None else int(group.max(initial=0)) + 1
    number = 0 if group is None else group[rows.block[chosen]]
    columns = {_CODE: pa.array(run * width + number), COUNT: pa.array(rows.cardinality[chosen], pa.int64())}
    merged = merge_sums([pa.table(columns | {name: stored[name] for name in stored.column_names})], aggregates)
    runs, numbers = np.divmod(merged[_CODE].to_numpy(), width)
    grouping = {} if group is None else {GROUP: pa.array(numbers)}
    of_keys = {key: rows.keys[key].take(pa.array(runs)) for key in keys}
    return pa.table(of_keys | grouping | {name: merged[name] for name in merged.column_names if name != _CODE})
