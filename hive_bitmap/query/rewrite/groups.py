"""The groups of a SELECT and their aggregates, made in this process from the counts of keys: no Spark job is needed.

Aggregates over different columns need not be counted together: `min(a), count(DISTINCT b)` are two counts, of the keys
of `a` and of those of `b`, and with GROUP BY g of (g, a) and (g, b). All of them count the same rows, so they have the
same groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.index.metastore import quote
from hive_bitmap.query.rewrite.expressions import Aggregate
from hive_bitmap.query.rewrite.shape import Shape
from hive_bitmap.query.rewrite.weights import PRODUCT, is_mean, mean, total, weighs, weighted
from hive_bitmap.query.tally import COUNT

VALUE, ROWS = "hive_bitmap_value_", "_rows"  # of a mean: how many rows it is of
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """A row a group: its keys, and columns for the aggregates, which are written as expressions of these columns.

    A mean has a column of sums among `columns`, and one of the rows that they are of, under its name and ROWS.
    """

    rows: pa.Table
    written: Mapping[Aggregate, str]
    columns: Mapping[Aggregate, str]

    @property
    def sorts(self) -> dict[Aggregate, str]:
        """The columns of those that are a column each."""
        return {aggregate: column for aggregate, column in self.columns.items() if not is_mean(aggregate)}


def key_sets(shape: Shape) -> list[tuple[str, ...]] | None:
    """The columns whose keys are to be counted, each set by itself; None for a shape that is not made here."""
    if not (shape.plain and (shape.aggregates or "GROUP" in shape.clauses)) or shape.tests_aliases:
        return None
    groups = [column.name for column in shape.groups]
    sets: dict[tuple[str, ...], None] = {}
    for aggregate in shape.aggregates:
        if aggregate.filter or (aggregate.argument and aggregate.column is None):
            return None
        if aggregate.distinct and aggregate.function not in ("COUNT", "MIN", "MAX"):
            return None
        own = [] if aggregate.column is None or aggregate.column in shape.groups else [aggregate.column.name]
        sets[(*groups, *own)] = None
    larger = [one for one in sets if len(one) > len(groups)]
    return larger or [tuple(groups)]


def groups_of(shape: Shape, counts: Sequence[pa.Table]) -> Groups:
    """The groups, from the counts of each of the key sets. Raises Unsupported where a sum might not be Spark's."""
    names = [column.name for column in shape.groups]
    keys, numbers = _numbered(names, counts)
    columns: dict[str, Any] = {name: keys[name] for name in names}
    fields = [keys.schema.field(name) for name in names]
    written: dict[Aggregate, str] = {}
    places: dict[Aggregate, str] = {}
    for aggregate in dict.fromkeys(shape.aggregates):
        holding = (
            n for n, t in enumerate(counts) if aggregate.column is None or aggregate.column.name in t.column_names
        )
        place = next(holding)
        name = f"{VALUE}{len(columns)}"
        made = _values(aggregate, counts[place], numbers[place], keys.num_rows)
        for suffix, values in made.items():
            columns[name + suffix] = values
            fields.append(pa.field(name + suffix, values.type, nullable=suffix == "" and aggregate.function != "COUNT"))
        written[aggregate] = _written(aggregate, quote(name), quote(name + ROWS))
        places[aggregate] = name
    return Groups(pa.table(list(columns.values()), schema=pa.schema(fields)), written, places)


def _written(aggregate: Aggregate, value: str, rows: str) -> str:
    if not weighs(aggregate):
        return value
    return mean(value, rows, aggregate) if is_mean(aggregate) else total(value, aggregate)


def _numbered(names: Sequence[str], counts: Sequence[pa.Table]) -> tuple[pa.Table, list[Longs]]:
    """The distinct keys of the groups, a row each, and of every row of the counts the number of its group.

    Without names there is one group, be there rows or not.
    """
    if not names:
        return pa.table({"": [0]}), [np.zeros(table.num_rows, np.int64) for table in counts]
    together = pa.concat_tables([table.select(names) for table in counts]).combine_chunks()
    code = np.zeros(together.num_rows, np.int64)
    for column in together.columns:
        codes, distinct = _codes(column)
        _, code = np.unique(code * (distinct + 1) + codes + 1, return_inverse=True)
    _, first = np.unique(code, return_index=True)
    ends = np.cumsum([table.num_rows for table in counts])[:-1]
    return together.take(pa.array(first)), [part.astype(np.int64) for part in np.split(code, ends)]


def _codes(column: pa.ChunkedArray) -> tuple[Longs, int]:
    """For each value its number among the distinct ones, in their order, -1 for NULL; and how many there are."""
    if pa.types.is_floating(column.type):  # as the bits that they are: NaN differs from itself
        column = column.combine_chunks().view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    values = pc.unique(column.drop_null())
    values = values.take(pc.sort_indices(values))
    found = pc.fill_null(pc.index_in(column, value_set=values), -1)
    return found.to_numpy(zero_copy_only=False).astype(np.int64), len(values)


def _values(aggregate: Aggregate, counts: pa.Table, group: Longs, groups: int) -> dict[str, pa.Array]:
    """The columns of an aggregate, a value a group, by what is added to their name."""
    weight = counts[COUNT].to_numpy()
    if aggregate.column is None:
        return {"": pa.array(_sums(group, weight, groups))}
    column = counts[aggregate.column.name]
    held = column.is_valid().to_numpy()
    if weighs(aggregate):
        product = weighted(counts, [aggregate])[PRODUCT + aggregate.column.name]
        summed = pa.table({"group": group, "product": product}).group_by("group", use_threads=False)
        sums = summed.aggregate([("product", "sum")])
        place = pc.index_in(pa.array(np.arange(groups)), value_set=sums["group"].combine_chunks())
        made = {"": sums["product_sum"].combine_chunks().take(place).cast(product.type)}
        return {**made, ROWS: pa.array(_sums(group[held], weight[held], groups))} if is_mean(aggregate) else made
    if aggregate.function == "COUNT" and not aggregate.distinct:
        return {"": pa.array(_sums(group[held], weight[held], groups))}
    codes, distinct = _codes(column)
    if aggregate.function == "COUNT":
        pairs = np.unique(group[held] * (distinct + 1) + codes[held]) // (distinct + 1)
        return {"": pa.array(np.bincount(pairs, minlength=groups).astype(np.int64))}
    return {"": _extremes(column, codes, group, groups, aggregate.function == "MIN")}


def _sums(group: Longs, values: Longs, groups: int) -> Longs:
    found = np.zeros(groups, np.int64)
    np.add.at(found, group, values)
    return found


def _extremes(column: pa.ChunkedArray, codes: Longs, group: Longs, groups: int, least: bool) -> pa.Array:
    """The least, or the greatest, value of each group; NULL where it has none."""
    order = np.argsort(codes if least else -codes, kind="stable")
    order = order[codes[order] >= 0]
    owners, first = np.unique(group[order], return_index=True)
    place = np.full(groups, -1)
    place[owners] = order[first]
    return column.combine_chunks().take(pa.array(place, mask=place < 0))
