"""Compute the partial aggregates of one block, for each of its keys.

Sums of Arrow and numpy wrap silently if they overflow, also those of decimals. So the type in which values are added is
chosen by their number and the largest of them: no sum of any of these rows can leave it.
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
_KEY, _VALUE = "key", "value"


def partials(
    aggregates: Sequence[Aggregate], codes: npt.NDArray[Any], rows: npt.NDArray[np.int64], values: Values | None
) -> list[pa.Array]:
    """Return each aggregate's value for each of the k keys of a block.

    The arrays have the types of `Aggregate.field`. The aggregates are of one column, whose values are `values`, one for
    each of the n rows of the block; None if they are unknown, and then all aggregates are NULL. `codes` (n) is the
    number of each row's key, `rows` (k) the number of rows of each key; keys are in the order of their numbers. A sum
    that does not fit its type is NULL.
    """
    if aggregates and aggregates[0].column is None:
        return [pa.array(rows, pa.int64()) for _ in aggregates]
    if values is None:
        return [pa.nulls(len(rows), aggregate.field.type) for aggregate in aggregates]
    of_keys = {"count": _grouped(codes, pc.is_valid(values).cast(pa.int64()), "sum")}
    of_keys |= {name: _grouped(codes, values, name) for name in ("min", "max") if _has(aggregates, name)}
    if _has(aggregates, "sum"):
        of_keys["sum"] = _sums(codes, values, int(rows.sum()))
    return [of_keys[aggregate.function].cast(aggregate.field.type) for aggregate in aggregates]


def _has(aggregates: Sequence[Aggregate], function: str) -> bool:
    return any(aggregate.function == function for aggregate in aggregates)


def _grouped(codes: npt.NDArray[Any], values: Values, function: str) -> pa.Array:
    """Return an aggregate of the values of each key, by the keys' numbers ascending."""
    table = pa.table({_KEY: pa.array(codes), _VALUE: values})
    grouped = table.group_by(_KEY, use_threads=False).aggregate([(_VALUE, function)])
    order = pa.array(np.argsort(grouped[_KEY].to_numpy()))
    return grouped[f"{_VALUE}_{function}"].combine_chunks().take(order)


def _sums(codes: npt.NDArray[Any], values: Values, rows: int) -> pa.Array:
    """Return the exact sum of each key; NULL without values, and for a sum of more than SUM_DIGITS digits."""
    if pa.types.is_integer(values.type):
        wide = values.cast(pa.int64())
        if _largest(wide, rows) >= 1 << 63:
            wide = wide.cast(pa.decimal128(SUM_DIGITS, 0))  # rows are fewer than 2**32, so 2**95 suffices
        return _grouped(codes, wide, "sum")
    scale = values.type.scale
    if _largest(values, rows) <= 10 ** (SUM_DIGITS - scale) - 1:
        return _grouped(codes, values, "sum")
    sums = _grouped(codes, values.cast(pa.decimal256(WIDEST_DIGITS, scale)), "sum")
    bound = pa.scalar(Decimal(10 ** (SUM_DIGITS - scale)), pa.decimal256(WIDEST_DIGITS, scale))
    return pc.if_else(pc.less(pc.abs(sums), bound), sums, pa.scalar(None, sums.type))


def _largest(values: Values, rows: int) -> int:
    """Return a whole number that no sum of these values exceeds, with either sign."""
    low, high = (int(bound.as_py() or 0) for bound in pc.min_max(values).values())
    fraction = 0 if pa.types.is_integer(values.type) else 1  # `int` cuts off what follows the point
    return (max(-low, high) + fraction) * rows
