"""The rows of a block whose select list is keys and aggregates alone: Spark has nothing left to do for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.query.rewrite.expressions import Aggregate, Item
from hive_bitmap.query.rewrite.groups import ROWS
from hive_bitmap.query.rewrite.shape import Shape
from hive_bitmap.query.rewrite.weights import is_mean, sums_integers


def finished(shape: Shape, names: Sequence[str], rows: pa.Table, columns: Mapping[Aggregate, str]) -> pa.Table | None:
    """The result under its `names`, from sorted groups; None where a clause or an item is more than these hold.

    `columns` are those of the aggregates; of a mean that of the sum, beside which lies how many rows it is of.
    """
    limit = _limit(shape)
    if shape.distinct or "HAVING" in shape.clauses or limit is None or len(set(names)) < len(names):
        return None
    made = [_column(shape, item, rows, columns) for item in shape.items]
    known = [column for column in made if column is not None]
    if len(known) < len(made):
        return None
    schema = pa.schema([field.with_name(name) for name, (field, _) in zip(names, known, strict=True)])
    return pa.table([values for _, values in known], schema=schema).slice(0, limit)


def _limit(shape: Shape) -> int | None:
    """How many rows are asked for at most; None where that is no plain number."""
    at, end = shape.clauses.get("LIMIT", (0, 0))
    if at == end:
        return 1 << 62
    text = shape.words.tokens[at + 1].text if end - at == 2 else ""
    return int(text) if text.isascii() and text.isdigit() else None


def _column(
    shape: Shape, item: Item, rows: pa.Table, columns: Mapping[Aggregate, str]
) -> tuple[pa.Field, pa.ChunkedArray] | None:
    for aggregate, column in columns.items():
        if (aggregate.start, aggregate.end) == (item.start, item.end):
            if not is_mean(aggregate):
                return rows.schema.field(column), rows[column]
            return (pa.field("", pa.float64()), _quotients(rows, column)) if sums_integers(aggregate) else None
    return None if item.column is None else (rows.schema.field(item.column.name), rows[item.column.name])


def _quotients(rows: pa.Table, column: str) -> pa.ChunkedArray:
    """Sums divided by their rows, as doubles; both are exact as such. NULL of no rows."""
    count = rows[column + ROWS]
    count = pc.if_else(pc.equal(count, 0), pa.scalar(None, count.type), count)
    return pc.divide(rows[column].cast(pa.float64()), count.cast(pa.float64()))
