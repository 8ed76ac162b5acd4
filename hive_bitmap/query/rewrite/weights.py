"""Aggregates over rows, written as expressions over their distinct keys and how often each key occurs.

A weighted view has a row a key: the keys under their own names, WEIGHT, and for each key that is summed its product
with the weight. Many of its rows make a group, as `folded` says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.columns import Column
from hive_bitmap.errors import Unsupported
from hive_bitmap.index.metastore import quote
from hive_bitmap.query.rewrite.expressions import Aggregate
from hive_bitmap.query.tally import COUNT

WEIGHT, PRODUCT = "hive_bitmap_weight", "hive_bitmap_product_"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_MOST_DIGITS = 38
_EXACT_DOUBLES, _LONGS = 1 << 53, 1 << 63
_MEANS = ("AVG", "MEAN")


def weighted(counts: pa.Table, aggregates: Sequence[Aggregate]) -> pa.Table:
    """The view's rows. Raises Unsupported where a sum might not be exact, or overflow another way than Spark's."""
    weight = pa.field(WEIGHT, pa.int64(), nullable=False)  # as count(*) is
    view = counts.drop_columns([COUNT]).append_column(weight, counts[COUNT])
    rows = int(pc.sum(counts[COUNT]).as_py() or 0)
    for aggregate in aggregates:
        column = aggregate.column
        if not weighs(aggregate) or column is None or PRODUCT + column.name in view.column_names:
            continue
        values = counts[column.name]
        if column.type in _INTEGERS:
            bound = _EXACT_DOUBLES if any(_mean_of(a, column) for a in aggregates) else _LONGS
            _require(_largest(values) * rows < bound, f"the sum of {column.name}")
            product = pc.multiply(values.cast(pa.int64()), counts[COUNT])
        else:
            precision, scale = _decimal(column)
            _require(precision + len(str(rows)) <= min(_MOST_DIGITS, precision + 10), f"the sum of {column.name}")
            wide = pc.multiply(
                values.cast(pa.decimal256(_MOST_DIGITS, scale)), counts[COUNT].cast(pa.decimal256(20, 0))
            )
            product = wide.cast(pa.decimal128(min(_MOST_DIGITS, precision + 10), scale))
            if any(_mean_of(a, column) for a in aggregates):
                # the quotient is rounded twice, which shows only where the digits between the two may all be 9 or 0
                room = _MOST_DIGITS - (precision + 10 - scale)
                _require(room >= scale + 4 + len(str(rows)) + 1, f"the mean of {column.name}")
        view = view.append_column(PRODUCT + column.name, product)
    return view


def folded(aggregate: Aggregate) -> str:
    """The aggregate where many rows of the view make a group."""
    tail, given = f" {aggregate.filter}" * bool(aggregate.filter), aggregate.argument
    if aggregate.function in ("MIN", "MAX") or aggregate.distinct:
        word = "DISTINCT " * aggregate.distinct
        return f"{aggregate.function}({word}{given}){tail}"
    if aggregate.function == "COUNT":
        return f"coalesce(sum({_weight(given)}){tail}, 0L)"
    column = _column(aggregate)
    summed = f"sum({quote(PRODUCT + column.name)}){tail}"
    return mean(summed, f"sum({_weight(given)}){tail}", aggregate) if is_mean(aggregate) else total(summed, aggregate)


def total(summed: str, aggregate: Aggregate) -> str:
    """A sum in the type of Spark's."""
    column = _column(aggregate)
    if column.type in _INTEGERS:
        return summed
    precision, scale = _decimal(column)
    return f"CAST({summed} AS DECIMAL({min(_MOST_DIGITS, precision + 10)}, {scale}))"


def mean(summed: str, rows: str, aggregate: Aggregate) -> str:
    """A mean: Spark divides doubles, or decimals that it rounds to four digits more."""
    column = _column(aggregate)
    if column.type in _INTEGERS:
        return f"(CAST({summed} AS DOUBLE) / CAST(nullif({rows}, 0L) AS DOUBLE))"
    precision, scale = _decimal(column)
    quotient = f"{total(summed, aggregate)} / CAST(nullif({rows}, 0L) AS DECIMAL(20, 0))"
    return f"CAST({quotient} AS DECIMAL({precision + 4}, {scale + 4}))"


def weighs(aggregate: Aggregate) -> bool:
    """Whether it sums values, each as often as it occurs."""
    return aggregate.function not in ("COUNT", "MIN", "MAX") and not aggregate.distinct


def is_mean(aggregate: Aggregate) -> bool:
    """Whether it is a mean."""
    return aggregate.function in _MEANS


def sums_integers(aggregate: Aggregate) -> bool:
    """Whether what it sums or averages are integers."""
    return aggregate.column is not None and aggregate.column.type in _INTEGERS


def _weight(given: str) -> str:
    """How many rows of a key have a value of the argument."""
    return f"CASE WHEN ({given}) IS NULL THEN 0L ELSE {WEIGHT} END" if given else WEIGHT


def _mean_of(aggregate: Aggregate, column: Column) -> bool:
    return is_mean(aggregate) and aggregate.column == column


def _column(aggregate: Aggregate) -> Column:
    """The one column that is summed; raises Unsupported for an expression, and for types whose sums are not exact."""
    column = aggregate.column
    if column is None or not (column.type in _INTEGERS or column.type.startswith("decimal(")):
        raise Unsupported(f"{aggregate.function} of {aggregate.argument} is not exact in the index")
    return column


def _decimal(column: Column) -> tuple[int, int]:
    found = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", column.type)
    if found is None:
        raise Unsupported(f"{column.type} is not summed in the index")
    return int(found[1]), int(found[2])


def _largest(values: pa.ChunkedArray) -> int:
    bounds = [bound.as_py() for bound in pc.min_max(values).values()]
    return max((abs(int(Decimal(bound))) for bound in bounds if bound is not None), default=0)


def _require(exact: bool, what: str) -> None:
    if not exact:
        raise Unsupported(f"{what} may be more than is exact")
