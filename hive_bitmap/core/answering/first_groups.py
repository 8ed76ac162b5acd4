"""Choose the groups that come first by their number of rows or a sum.

Only some of the groups are in memory at a time. Spark must be able to prove that no sum overflows, not even in a group
that is left out. The proof compares a bound of each group's sums with a limit (`Measure.java`). So the group with the
largest bound is kept for each sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index.aggregate_columns import SUM_DIGITS, Aggregate, scale
from hive_bitmap.core.selecting.index_rows import COUNT

HELD_ROWS = 1 << 16  # groups that are collected before the last ones are dropped
_COUNT_DIGITS = 19  # of a number of rows


@dataclass(frozen=True, kw_only=True)
class Top:
    """Which groups of a GROUP BY a query needs.

    A query needs `rows` groups. `first` says which: the groups with the most rows, the groups with the fewest rows, or
    any groups. `ties` orders groups that have equally many rows: by the smallest key first, by the largest key first,
    or in any order. `sum` may be the name of a column or expression (`Measure.column`): then its sum in a group takes
    the place of the group's number of rows, in `first` and in `ties`. The query may sort groups whose sum is NULL
    before or after all others.
    """

    rows: int
    first: str = "most"  # or "fewest", "any"
    ties: str = "any"  # or "smallest", "largest"
    sum: str = ""

    @property
    def is_any(self) -> bool:
        """Whether the query accepts any groups, so that counting may stop early."""
        return self.first == "any"


def first_groups(merged: Iterable[pa.Table], top: Top, field: pa.Field) -> pa.Table:
    """Return a few groups, among them the groups that `top` asks for.

    `merged` has all groups, as `merge` yields them. The result has at most twice as many groups as `top` asks for, and
    in addition the group of NULL if there is one. The columns of the result are `field` (the key) and COUNT.
    """
    schema = pa.schema([field, (COUNT, pa.int64())])
    candidates, nulls, worst = schema.empty_table(), schema.empty_table(), None
    for table in merged:
        table = table.cast(schema)
        if not table[0][0].is_valid:
            nulls = table
            continue
        if worst is not None:
            table = table.filter((pc.greater_equal if top.first == "most" else pc.less_equal)(table[COUNT], worst))
        candidates = pa.concat_tables([candidates, table])
        if candidates.num_rows > HELD_ROWS + 2 * top.rows:
            candidates, worst = _cut(candidates, top)
    return pa.concat_tables([_cut(candidates, top)[0], nulls])


def _cut(groups: pa.Table, top: Top) -> tuple[pa.Table, int | None]:
    """Remove groups that `top` certainly does not ask for.

    Return the remaining groups, and the number of rows of the last group that `top` asks for. This number is None if
    there are fewer groups than needed.
    """
    if groups.num_rows < top.rows or not top.rows:
        return (groups if top.rows else groups.slice(0, 0)), None
    counts = groups[COUNT].to_numpy() if top.first == "most" else -groups[COUNT].to_numpy()
    worst = int(np.partition(counts, len(counts) - top.rows)[len(counts) - top.rows])
    ties = np.flatnonzero(counts == worst)
    if top.ties != "any" and len(ties) > top.rows:
        keys = groups[0].take(pa.array(ties)).combine_chunks()
        order = "ascending" if top.ties == "smallest" else "descending"
        ties = ties[pc.array_sort_indices(keys, order=order).to_numpy()]
    positions = np.concatenate([np.flatnonzero(counts > worst), ties[: top.rows]])
    return groups.take(pa.array(positions)), worst if top.first == "most" else -worst


def first_by_sum(merged: Iterable[pa.Table], top: Top, field: pa.Field, aggregates: Sequence[Aggregate]) -> pa.Table:
    """Return a few groups, among them the groups that `top` asks for.

    `merged` has all groups with their aggregates, as `key_merge.merge` yields them. The result has the columns `field`
    (the key), COUNT and the stored columns of the aggregates. Its groups are: the first `top.rows` groups whose sum is
    not NULL, at most `top.rows` groups whose sum is NULL, the group of the key NULL if there is one, and for each
    aggregate `sum` a group with the largest bound (`bounds`).
    """
    schema = pa.schema([field, (COUNT, pa.int64()), *(aggregate.field for aggregate in aggregates)])
    sums = [aggregate for aggregate in aggregates if aggregate.function == "sum"]
    [by] = [aggregate.field.name for aggregate in sums if aggregate.measured.lower() == top.sum.lower()]
    candidates = unsummed = null_key = schema.empty_table()
    worst: pa.Scalar | None = None
    largest: dict[Aggregate, tuple[pa.Scalar, pa.Table]] = {}
    for table in merged:
        table = table.cast(schema)
        for aggregate in sums:
            of_groups = bounds(aggregate, table)
            best = pc.max(of_groups)
            if aggregate not in largest or pc.greater(best, largest[aggregate][0]).as_py():
                at = pc.index(of_groups, best).as_py()
                largest[aggregate] = best, table.slice(at, 1)
        if not table[0][0].is_valid:
            null_key = table
            continue
        has_sum = table[by].is_valid()
        unsummed = _ends(pa.concat_tables([unsummed, table.filter(pc.invert(has_sum))]), top)
        table = table.filter(has_sum)
        if worst is not None:
            table = table.filter((pc.greater_equal if top.first == "most" else pc.less_equal)(table[by], worst))
        candidates = pa.concat_tables([candidates, table])
        if candidates.num_rows > HELD_ROWS + 2 * top.rows:
            candidates = _first(candidates, top, by)
            worst = candidates[by][-1] if candidates.num_rows else None
    groups = pa.concat_tables([_first(candidates, top, by), unsummed, null_key])
    for _, group in largest.values():
        if not pc.is_in(group[0], value_set=groups[0].combine_chunks())[0].as_py():
            groups = pa.concat_tables([groups, group])
    return groups


def bounds(aggregate: Aggregate, groups: pa.Table) -> pa.Array:
    """Return an upper bound of the absolute value of each group's partial sums.

    A partial sum is the sum of some or all of the group's values. If all values have the same sign, the bound is the
    absolute value of the group's sum; otherwise it is the number of values times the largest absolute value. The bound
    of a group without values is 0. `groups` has the stored columns of the aggregates. A sum may be NULL only if its
    count is 0.
    """
    assert aggregate.column is not None
    digits = scale(aggregate.column)
    names = (Aggregate(function, aggregate.column).field.name for function in ("sum", "count", "min", "max"))
    total, count, low, high = (groups[name].combine_chunks() for name in names)
    wide = pa.decimal256(SUM_DIGITS, digits)
    low, high, total = (_decimal(values, digits).cast(wide) for values in (low, high, total))
    zero = pa.scalar(0, pa.int64()).cast(wide)
    low_size, high_size = pc.abs(low), pc.abs(high)
    value = pc.if_else(pc.greater(low_size, high_size), low_size, high_size)
    product = pc.multiply(value, count.cast(pa.decimal128(_COUNT_DIGITS, 0)).cast(pa.decimal256(_COUNT_DIGITS, 0)))
    is_of_one_sign = pc.or_(pc.greater_equal(low, zero), pc.less_equal(high, zero))
    bound = pc.if_else(is_of_one_sign, pc.abs(total).cast(product.type), product)
    return pc.fill_null(bound, zero.cast(product.type))


def _decimal(values: pa.Array, digits: int) -> pa.Array:
    return values.cast(pa.decimal128(_COUNT_DIGITS, 0)) if pa.types.is_integer(values.type) else values


def _ends(groups: pa.Table, top: Top) -> pa.Table:
    """Return at most `top.rows` of some tied groups, those that `top.ties` prefers.

    `groups` are sorted by key, ascending. The last groups are returned if `top.ties` is `largest`, and the first groups
    otherwise.
    """
    return groups.slice(max(groups.num_rows - top.rows, 0)) if top.ties == "largest" else groups.slice(0, top.rows)


def _first(groups: pa.Table, top: Top, by: str) -> pa.Table:
    """Return the groups that `top` asks for, in the order of their sums.

    `by` is the column of the sums.
    """
    order = [(by, "descending" if top.first == "most" else "ascending")]
    if top.ties != "any":
        order.append((groups.column_names[0], "ascending" if top.ties == "smallest" else "descending"))
    return groups.take(pc.sort_indices(groups, sort_keys=order).slice(0, top.rows))
