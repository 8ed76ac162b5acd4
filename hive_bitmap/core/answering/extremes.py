"""Find the smallest and the largest key of the matching rows.

MIN and MAX need only these two keys. A shard is sorted by its first key column, and the statistics of each row group
have its smallest and largest key. So reading begins with the shards and row groups that may have the best key. Reading
ends when no other row group can have a better key than the best key so far. One row group may not be enough, because
the rows of its best keys may fail the predicate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.answering.tally import keys_of_group
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.predicates.nodes import columns_of
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.index_rows import COUNT
from hive_bitmap.core.selecting.key_matches import MatchingKeys, may_hold
from hive_bitmap.errors import CorruptIndex

# For other types Spark's order may differ from that of statistics or stored keys: NaN, padded CHAR, collations.
ORDERED = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")


def has_order(column: Column) -> bool:
    """Return whether Spark sorts the values of a column as shards do.

    Stored keys and their statistics must both have Spark's order. Otherwise, the smallest stored key may not be Spark's
    MIN, nor the largest its MAX.
    """
    return column.type in ORDERED or column.type.startswith("decimal(")


def are_enough(lookups: Sequence[Lookup], keys: Sequence[str], extremes: Collection[str]) -> bool:
    """Return whether the smallest and the largest matching key are enough to answer.

    `keys` are the columns, in lower case, by which rows are counted otherwise. `extremes` are the columns, in lower
    case, of which the query needs only MIN and MAX. The two keys are enough if `keys` is a single column of `extremes`,
    and the index of this column covers the predicate of each lookup (`index_covers`). Then no bitmap is read.
    """
    return len(keys) == 1 and keys[0] in extremes and all(index_covers(lookup, keys[0]) for lookup in lookups)


def index_covers(lookup: Lookup, key: str) -> bool:
    """Return whether the index of a key column covers the predicate.

    `key` is the name of the key column, in lower case. Its index covers the predicate of `lookup` if the index has all
    columns that the predicate tests. If rows are deleted, the result is false: perhaps all rows with the smallest key
    are deleted.
    """
    if any(lookup.deletes):
        return False
    parts = lookup.unit.parts
    names = (key, *(column.lower() for column in columns_of(lookup.predicate)))
    return all(name in parts for name in names) and len({parts[name].index for name in names}) == 1


def extremes(lookups: Sequence[Lookup], key: str, matching_keys: MatchingKeys, rows: int) -> pa.Table:
    """Return the smallest and the largest key of the matching rows.

    `key` is the name of the key column, in lower case. Its index must cover the predicate of each lookup
    (`index_covers`), and the predicate must be exact in every file. `matching_keys` has the keys for which Spark's
    leaves are TRUE. `rows` is the number of matching rows.

    The result has the two keys in a column with the name `key`, in the Arrow type of the index; if they are equal, it
    has only one row. Both keys are NULL if no row has a key other than NULL. The column COUNT (int64) has a count for
    each key. These counts are not the true counts of the keys, but add up to `rows`, so a count of all rows is right.
    Raises CorruptIndex.
    """
    field = lookups[0].unit.parts[key].key.with_name(key)
    searches = [_Search(key, field.type, matching_keys, largest=largest) for largest in (False, True)]
    ends = [search.among(lookups) for search in searches]
    keys = list(dict.fromkeys(ends))
    if rows < len(keys):
        raise CorruptIndex(f"its keys do not fit the {rows:,} rows that were counted")
    counts = [1] * (len(keys) - 1) + [rows - len(keys) + 1]
    schema = pa.schema([field, (COUNT, pa.int64())])
    return pa.Table.from_arrays([pa.array(keys, field.type), pa.array(counts, pa.int64())], schema=schema)


@dataclass(frozen=True, kw_only=True)
class _Shard:
    """A shard to search, and its row groups that may match.

    `groups` has a pair for each row group, in the order of reading: the position of the row group in the shard, and the
    best key that the row group may have. The best key is NULL if it is unknown. `is_sorted` says whether the shard is
    sorted by the searched column.
    """

    lookup: Lookup
    shard: tuple[str, int]  # path and size in bytes
    groups: tuple[tuple[int, pa.Scalar], ...]
    is_sorted: bool


class _Search:
    """A search for the smallest or largest key in the shards of all lookups."""

    def __init__(self, key: str, type: pa.DataType, matching_keys: MatchingKeys, *, largest: bool) -> None:
        self._key, self._type, self._matching_keys, self._largest = key, type, matching_keys, largest
        self._best = pc.max if largest else pc.min

    def among(self, lookups: Sequence[Lookup]) -> pa.Scalar:
        """Return the smallest or largest key of all matching rows.

        The result is NULL if all keys are NULL.
        """
        best = pa.scalar(None, self._type)
        shards = [self._shard(lookup, shard) for lookup in lookups for shard in lookup.unit.parts[self._key].shards]
        for shard in self._in_order([shard for shard in shards if shard.groups]):
            best = self._better(shard, best)
        return best

    def _shard(self, lookup: Lookup, shard: tuple[str, int]) -> _Shard:
        """Return a shard with the row groups that may match.

        `shard` has the path and the size of the shard. If the predicate tests only the searched column, statistics
        may show that it is TRUE for no row of a row group. Such row groups are left out.
        """
        name, predicate = lookup.unit.parts[self._key].key.name, lookup.predicate
        tests_key = {column.lower() for column in columns_of(predicate)} == {self._key}
        of_groups = [
            (group, pa.scalar(stats.high if self._largest else stats.low, self._type))
            for group, stats in enumerate(shards.statistics(*shard, name))
            if not tests_key or may_hold(predicate, stats)
        ]
        groups = tuple(reversed(of_groups) if self._largest else of_groups)
        return _Shard(lookup=lookup, shard=shard, groups=groups, is_sorted=shards.is_sorted_by(*shard, name))

    def _in_order(self, searched: Sequence[_Shard]) -> list[_Shard]:
        """Return the shards in the order of searching, the most promising first.

        The most promising shard is the one whose row groups may have the best key. A shard without statistics may hold
        any key, so it comes before all others.
        """
        promises = pa.array([self._promise(shard) for shard in searched], self._type)
        order = "descending" if self._largest else "ascending"
        places = pc.array_sort_indices(promises, order=order, null_placement="at_start")
        return [searched[place] for place in places.to_pylist()]

    def _promise(self, shard: _Shard) -> pa.Scalar:
        promised = pa.array([promise for _, promise in shard.groups], self._type)
        return pa.scalar(None, self._type) if promised.null_count else self._best(promised)

    def _better(self, shard: _Shard, so_far: pa.Scalar) -> pa.Scalar:
        """Return the better of two keys: `so_far`, and the best of a shard.

        `so_far` is the best key of the shards searched before; NULL if there is none.
        """
        for group, promise in shard.groups:
            if so_far.is_valid and promise.is_valid and self._best_of(so_far, promise).equals(so_far):
                continue
            unit, predicate = shard.lookup.unit, shard.lookup.predicate
            best = self._best(keys_of_group(unit, self._key, predicate, self._matching_keys, shard.shard, group))
            so_far = self._best_of(so_far, best)
            if shard.is_sorted and best.is_valid:
                break
        return so_far

    def _best_of(self, first: pa.Scalar, second: pa.Scalar) -> pa.Scalar:
        return self._best(pa.array([first, second], self._type))
