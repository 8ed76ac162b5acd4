"""Compute the aggregates of a block again, for `verify`.

This module always computes sums in 256 bits; a build (`index.aggregate_columns`) uses 256 bits only for large values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index.aggregate_columns import SUM_DIGITS, WIDEST_DIGITS, Aggregate, fitting, scale

Longs = npt.NDArray[np.int64]


def expected_aggregate(aggregate: Aggregate, base: Longs, index: Longs, values: pa.ChunkedArray | None) -> pa.Array:
    """Return the aggregate that each index row of a block should hold.

    Keys are numbered. `base` has the key number of each base row of the block, and `index` the key number of each index
    row of the block. `values` has the value of the aggregated column in each base row; None for `count(*)`. The
    aggregate of a key without base rows is NULL.
    """
    column, function = aggregate.column, aggregate.function
    if column is None or values is None:
        function, values = "sum", pa.array(np.ones(len(base), np.int64))
    elif function == "count":
        function, values = "sum", pc.is_valid(values).cast(pa.int64())
    elif function == "sum":
        values = values.cast(pa.decimal128(SUM_DIGITS, scale(column))).cast(pa.decimal256(WIDEST_DIGITS, scale(column)))
    grouped = (
        pa.table({"key": base, "value": values}).group_by("key", use_threads=False).aggregate([("value", function)])
    )
    results = grouped[f"value_{function}"].combine_chunks()
    at = pc.index_in(pa.array(index), value_set=grouped["key"].combine_chunks())
    return fitting(results.take(at), aggregate.field.type)


def wrong_aggregates(aggregate: Aggregate, expected: pa.Array, actual: pa.Array, stored: pa.Table) -> Longs:
    """Return the positions of the index rows with a wrong aggregate.

    `stored` are the index rows. `actual` has the stored value of the aggregate in each row, and `expected` the right
    value. A build that cannot read a column stores NULL for all aggregates of the column, including its count. Such a
    NULL is not wrong.
    """
    right = pc.fill_null(pc.equal(expected, actual), False).to_numpy(zero_copy_only=False)
    if aggregate.column is None:
        return np.flatnonzero(~right)
    is_null = actual.is_null().to_numpy(zero_copy_only=False)
    counts = stored[Aggregate("count", aggregate.column).field.name].combine_chunks()
    is_unknown = counts.is_null().to_numpy(zero_copy_only=False)
    both_null = is_null & expected.is_null().to_numpy(zero_copy_only=False)
    return np.flatnonzero(~np.where(is_unknown, is_null, right | both_null))
