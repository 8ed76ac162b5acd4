"""Aggregates over rows, written as expressions over their distinct keys and how often each key occurs.

A weighted view has a row a key: the keys under their own names, WEIGHT, and for each key that is summed its product
with the weight. Either many of its rows make a group (`folded`), or each of them is one (`single`).
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
    total = int(pc.sum(counts[COUNT]).as_py() or 0)
    for aggregate in aggregates:
        column = aggregate.column
        if not _weighs(aggregate) or column is None or PRODUCT + column.name in view.column_names:
            continue
        values = counts[column.name]
        if column.type in _INTEGERS:
            bound = _EXACT_DOUBLES if any(_mean_of(a, column) for a in aggregates) else _LONGS
            _require(_largest(values) * total < bound, f"the sum of {column.name}")
            product = pc.multiply(values.cast(pa.int64()), counts[COUNT])
        else:
            precision, scale = _decimal(column)
            _require(precision + len(str(total)) <= min(_MOST_DIGITS, precision + 10), f"the sum of {column.name}")
            wide = pc.multiply(
                values.cast(pa.decimal256(_MOST_DIGITS, scale)), counts[COUNT].cast(pa.decimal256(20, 0))
            )
            product = wide.cast(pa.decimal128(min(_MOST_DIGITS, precision + 10), scale))
            if any(_mean_of(a, column) for a in aggregates):
                # the quotient is rounded twice, which shows only where the digits between the two may all be 9 or 0
                room = _MOST_DIGITS - (precision + 10 - scale)
                _require(room >= scale + 4 + len(str(total)) + 1, f"the mean of {column.name}")
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
    total = f"sum({quote(PRODUCT + column.name)}){tail}"
    return _mean(total, f"sum({_weight(given)}){tail}", column) if _is_mean(aggregate) else _sum(total, column)


def single(aggregate: Aggregate) -> str | None:
    """The aggregate where each row of the view is a group; None where it has to be folded."""
    given = aggregate.argument
    if aggregate.filter or (aggregate.distinct and aggregate.column is None):
        return None
    if aggregate.function in ("MIN", "MAX"):
        return f"({given})"
    if aggregate.function == "COUNT":
        return f"(CASE WHEN ({given}) IS NULL THEN 0L ELSE 1L END)" if aggregate.distinct else f"({_weight(given)})"
    if aggregate.distinct:
        return None
    column = _column(aggregate)
    total = quote(PRODUCT + column.name)
    return _mean(total, _weight(given), column) if _is_mean(aggregate) else _sum(total, column)


def _weight(given: str) -> str:
    """How many rows of a key have a value of the argument."""
    return f"CASE WHEN ({given}) IS NULL THEN 0L ELSE {WEIGHT} END" if given else WEIGHT


def _sum(total: str, column: Column) -> str:
    if column.type in _INTEGERS:
        return total
    precision, scale = _decimal(column)
    return f"CAST({total} AS DECIMAL({min(_MOST_DIGITS, precision + 10)}, {scale}))"


def _mean(total: str, rows: str, column: Column) -> str:
    """Spark divides doubles, or decimals that it rounds to four digits more."""
    if column.type in _INTEGERS:
        return f"(CAST({total} AS DOUBLE) / CAST(nullif({rows}, 0L) AS DOUBLE))"
    precision, scale = _decimal(column)
    quotient = f"{_sum(total, column)} / CAST(nullif({rows}, 0L) AS DECIMAL(20, 0))"
    return f"CAST({quotient} AS DECIMAL({precision + 4}, {scale + 4}))"


def _weighs(aggregate: Aggregate) -> bool:
    return aggregate.function not in ("COUNT", "MIN", "MAX") and not aggregate.distinct


def _is_mean(aggregate: Aggregate) -> bool:
    return aggregate.function in _MEANS


def _mean_of(aggregate: Aggregate, column: Column) -> bool:
    return _is_mean(aggregate) and aggregate.column == column


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
