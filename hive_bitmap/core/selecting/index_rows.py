"""Read the rows of an index, a row group at a time.

An index row is a key in a block of a base file, with the number of base rows that have the key. In an AGGREGATE index,
each file is one block. Index rows are sorted by key, so index rows of a row group that have the same key form a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from hive_bitmap.core.index import lookup
from hive_bitmap.core.predicates.nodes import And, Constant, Or, Predicate, columns_of
from hive_bitmap.core.selecting.key_matches import MatchingKeys, key_matches, may_hold
from hive_bitmap.core.selecting.lookup_units import BlockNumbers, Flags, Longs, LookupUnit
from hive_bitmap.errors import CorruptIndex

COUNT = "count"  # the last column of counted keys; the columns of the keys have lower-case names
GROUP = ""  # the column of the numbers of groups of files; no column of a table has this name
INCONSISTENT = "its keys share rows, or some rows have none"


@dataclass(frozen=True, kw_only=True)
class IndexRows:
    """Index rows of one row group of a shard, sorted by key.

    Each array has an item for each index row. `group` is the position of the row group in the shard.
    """

    shard: tuple[str, int]  # path and size in bytes
    group: int
    keys: pa.Table  # a row for each run of rows with equal keys
    run: Longs  # position of the row's run in `keys`
    block: Longs  # number of the row's block in the unit
    cardinality: Longs  # how many base rows of the block have the key
    number: Longs  # position of the row in the row group
    true: Flags  # whether the predicate is TRUE for the row's key


def index_rows(
    unit: LookupUnit,
    keys: Sequence[str],
    predicate: Predicate,
    matching_keys: MatchingKeys,
    shards: Sequence[tuple[str, int]] | None = None,
) -> Iterator[IndexRows]:
    """Yield the rows of an index, a row group at a time.

    The index is the part of `unit` that serves the first of `keys`. It must have all `keys` and all columns of the
    predicate. Index rows of files outside the unit are left out. If the predicate tests a single column, row groups
    without matching keys may be skipped. `matching_keys` has the keys for which the leaves that only Spark evaluates
    are TRUE. `shards` are the shards of the index to read (path and size in bytes); None stands for all shards.
    """
    part = unit.parts[keys[0]]
    blocks = BlockNumbers(unit, unit.covered(part))
    tested = [column.lower() for column in columns_of(predicate)]
    names = list(dict.fromkeys((*tested, *keys)))
    fields = [unit.parts[name].key for name in names]
    for shard in part.shards if shards is None else shards:
        for values, entries in lookup.all_entries(
            *shard, fields, lambda stats: len(tested) != 1 or may_hold(predicate, stats), part.kind
        ):
            columns = dict(zip(names, values, strict=True))
            block, in_unit = blocks.find(entries.buckets, entries.offsets)
            changed = np.zeros(len(in_unit), bool)
            changed[:1] = True
            for key in keys:
                codes = columns[key].indices.to_numpy(zero_copy_only=False)[in_unit]
                changed[1:] |= codes[1:] != codes[:-1]
            first = in_unit[changed]
            assert entries.cardinality is not None
            yield IndexRows(
                shard=shard,
                group=entries.group,
                keys=pa.table({key: values_at(columns[key], first) for key in keys}),
                run=np.cumsum(changed) - 1,
                block=block,
                cardinality=entries.cardinality[in_unit],
                number=entries.rows[in_unit],
                true=is_true(predicate, columns, matching_keys)[in_unit],
            )


def is_true(node: Predicate, columns: Mapping[str, pa.DictionaryArray], matching_keys: MatchingKeys) -> Flags:
    """Return for each index row whether the predicate `node` is TRUE.

    `columns` are the key columns of the index rows, by name in lower case. `matching_keys` has the keys for which the
    leaves that only Spark evaluates are TRUE.
    """
    match node:
        case Constant(value):
            return np.full(len(next(iter(columns.values()))), value is True)
        case And(children):
            return reduce(np.logical_and, (is_true(child, columns, matching_keys) for child in children))
        case Or(children):
            return reduce(np.logical_or, (is_true(child, columns, matching_keys) for child in children))
    [name] = columns_of(node)
    column = columns[name.lower()]
    return key_matches(node, column.dictionary, matching_keys)[column.indices.to_numpy(zero_copy_only=False)]


def require_complete(counted: Longs, expected: Longs, *, exact: bool = True) -> None:
    """Raise CorruptIndex unless each row was counted once.

    The arrays have a number of rows for each block or file. Unless `exact`, rows may be missing in `counted`.
    """
    if (counted > expected).any() or (exact and (counted != expected).any()):
        raise CorruptIndex(INCONSISTENT)


def summed(rows: IndexRows, counts: Longs, group: Longs | None) -> pa.Table:
    """Sum counts of index rows by key.

    `counts` has a count for each index row. The result has a row for each key, with the sum in the last column; keys
    with the sum 0 are left out. If `group` is not None, it has the number of a group for each block of the unit. Then
    the result has a row for each key and group, and a column with the group's number.
    """
    if group is None:
        sums = np.bincount(rows.run, counts, rows.keys.num_rows).astype(np.int64)
        occurring = np.flatnonzero(sums)
        return rows.keys.take(pa.array(occurring)).append_column(COUNT, pa.array(sums[occurring]))
    width = int(group.max(initial=0)) + 1
    pairs, of_row = np.unique(rows.run * width + group[rows.block], return_inverse=True)
    sums = np.bincount(of_row, counts, len(pairs)).astype(np.int64)
    occurring = np.flatnonzero(sums)
    run, numbers = np.divmod(pairs[occurring], width)
    counted = rows.keys.take(pa.array(run)).append_column(GROUP, pa.array(numbers))
    return counted.append_column(COUNT, pa.array(sums[occurring]))


def values_at(column: pa.DictionaryArray, rows: Longs) -> pa.Array:
    """Return the values of a key column for some index rows.

    `rows` has the positions of the index rows.
    """
    return column.dictionary.take(column.indices.take(pa.array(rows)))
