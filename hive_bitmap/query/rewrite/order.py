"""ORDER BY of groups that are known: sorted here, as Spark would, so that no job has to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.query.names import Names
from hive_bitmap.query.rewrite.expressions import Aggregate, direction
from hive_bitmap.query.rewrite.shape import Shape

Ranks = npt.NDArray[np.int64]


def sort(shape: Shape, names: Sequence[str], rows: pa.Table, sorts: Mapping[Aggregate, str]) -> pa.Table | None:
    """The rows in the order of ORDER BY; None where that is more than columns and aggregates of exact types.

    `names` are those of the select list. Numbers for its items are left to Spark: a setting may forbid them.
    """
    at, end = shape.clauses.get("ORDER", (0, 0))
    if at == end:
        return rows
    keys = []
    for start, stop in shape.words.spans(at + 2, end):
        stop, descending, nulls_first = direction(shape.words, start, stop)
        column = _column(shape, names, start, stop, sorts)
        if column is None or column not in rows.column_names or pa.types.is_floating(rows.schema.field(column).type):
            return None
        keys.append(_ranks(rows[column], descending, nulls_first))
    return rows.take(pa.array(np.lexsort(keys[::-1])))


def _column(shape: Shape, names: Sequence[str], start: int, stop: int, sorts: Mapping[Aggregate, str]) -> str | None:
    """The column that an expression is: a key's, or an aggregate's, maybe by the name that the select list gives it."""
    for item, name in zip(shape.items, names, strict=True):
        if stop - start == 1 and item.aliased and shape.words.name(start) == name.lower():
            start, stop = item.start, item.end
            break
    for aggregate, column in sorts.items():
        if (aggregate.start, aggregate.end) == (start, stop):
            return column
    found = Names(shape.groups or shape.keys, shape.alias).column_at(shape.words.tokens[:stop], start)
    return found[0].name if found is not None and found[1] == stop else None


def _ranks(column: pa.ChunkedArray, descending: bool, nulls_first: bool) -> Ranks:
    values = pc.unique(column.drop_null())
    values = values.take(pc.sort_indices(values))
    found = pc.fill_null(pc.index_in(column, value_set=values), -1)
    ranks: Ranks = found.to_numpy(zero_copy_only=False).astype(np.int64)
    nulls = ranks < 0
    ranks = -ranks if descending else ranks
    ranks[nulls] = -len(values) - 1 if nulls_first else len(values) + 1
    return ranks
