"""Compute the partial aggregates of one block, for each of its keys.

In Arrow and numpy, a sum that overflows wraps silently, also a sum of decimals. So the type for adding values is chosen
by the number of values and by the largest value: it can hold the sum of any selection of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index.aggregate_columns import SUM_DIGITS, Aggregate

Values: TypeAlias = "pa.Array | pa.ChunkedArray"
WIDEST_DIGITS = 76  # of a decimal in 256 bits
_KEY, _VALUE, _ADDED = "key", "value", "added"


def partials(
    aggregates: Sequence[Aggregate], codes: npt.NDArray[Any], rows: npt.NDArray[np.int64], values: Values | None
) -> list[pa.Array]:
    """Return each aggregate's value for each of the k keys of a block.

    All aggregates are of one column, and `values` has this column's value for each of the n rows of the block. If the
    values are unknown, `values` is None, and all aggregates are NULL. `codes` (n) has the number of each row's key, and
    `rows` (k) the number of rows of each key. The arrays of the result are in the order of the keys' numbers, and have
    the types of `Aggregate.field`. A sum that does not fit its type is NULL.
    """
    if aggregates and aggregates[0].column is None:
        return [pa.array(rows, pa.int64()) for _ in aggregates]
    if values is None:
        return [pa.nulls(len(rows), aggregate.field.type) for aggregate in aggregates]
    columns: dict[str, Values] = {_KEY: pa.array(codes), _VALUE: values}
    if any(aggregate.function == "sum" for aggregate in aggregates):
        columns[_ADDED] = summable(values, int(rows.sum()))
    named = [(_ADDED if aggregate.function == "sum" else _VALUE, aggregate.function) for aggregate in aggregates]
    grouped = pa.table(columns).group_by(_KEY, use_threads=False).aggregate(named)
    order = pa.array(np.argsort(grouped[_KEY].to_numpy()))
    results = [grouped[f"{column}_{function}"].combine_chunks().take(order) for column, function in named]
    return [fitting(result, a.field.type) for result, a in zip(results, aggregates, strict=True)]


def summable(values: Values, rows: int) -> Values:
    """Cast values to a type that can hold their sum.

    The type can hold the sum of any selection of the values. `rows` is the number of values.
    """
    if pa.types.is_integer(values.type):
        wide = values.cast(pa.int64())
        if _largest(wide, rows) < 1 << 63:
            return wide
        return wide.cast(pa.decimal128(SUM_DIGITS, 0))  # rows are fewer than 2**32, so 2**95 suffices
    scale = values.type.scale
    if _largest(values, rows) <= 10 ** (SUM_DIGITS - scale) - 1:
        return values
    return values.cast(pa.decimal256(WIDEST_DIGITS, scale))


def fitting(results: pa.Array, type: pa.DataType) -> pa.Array:
    """Return the results in the stored type; NULL for a sum of more than SUM_DIGITS digits."""
    if pa.types.is_decimal256(results.type):
        bound = pa.scalar(Decimal(10 ** (SUM_DIGITS - type.scale)), results.type)
        results = pc.if_else(pc.less(pc.abs(results), bound), results, pa.scalar(None, results.type))
    return results.cast(type)


def _largest(values: Values, rows: int) -> int:
    """Return an upper bound for the sum of any selection of these values.

    The bound is a whole number, and holds for the absolute value of the sum. `rows` is the number of values.
    """
    low, high = (int(bound.as_py() or 0) for bound in pc.min_max(values).values())
    fraction = 0 if pa.types.is_integer(values.type) else 1  # `int` cuts off what follows the point
    return (max(-low, high) + fraction) * rows
