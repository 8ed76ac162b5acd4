"""The first groups by a sum, against Python's sorting of all groups."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.answering import first_groups as choosing
from hive_bitmap.core.answering.first_groups import Top, first_by_sum
from hive_bitmap.core.columns import Column, KeyExpression
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Aggregate
from hive_bitmap.core.selecting.index_rows import COUNT

FIELD = pa.field("k", pa.int32())
COLUMNS = (Column("v", "bigint"), Column("w", "decimal(20,3)"))
EXPRESSION = KeyExpression("w", "decimal(20,3)", "a * b", "(a * b)", (Column("a", "int"),))
AGGREGATES = [
    Aggregate(function, column, expression)
    for column, expression in zip(COLUMNS, (None, EXPRESSION), strict=True)
    for function in FUNCTIONS
]
Values = list[int | None]  # of w, unscaled


def row(key: int | None, values: Values, others: Values) -> dict[str, Any]:
    stored: dict[str, Any] = {"k": key, COUNT: max(len(values), len(others), 1)}
    for column, held in zip(COLUMNS, (values, others), strict=True):
        known = [value for value in held if value is not None]
        scaled = known if column.type == "bigint" else [Decimal(value).scaleb(-3) for value in known]
        total = Decimal(sum(known)).scaleb(0 if column.type == "bigint" else -3) if known else None
        numbers = (total, len(known), min(scaled, default=None), max(scaled, default=None))
        fields = (Aggregate(function, column).field.name for function in ("sum", "count", "min", "max"))
        stored |= dict(zip(fields, numbers, strict=True))
    return stored


def bound(values: Values) -> int:
    """What Measure.java computes of a group."""
    known = [value for value in values if value is not None]
    if not known:
        return 0
    if min(known) >= 0 or max(known) <= 0:
        return abs(sum(known))
    return len(known) * max(map(abs, known))


def tables(rows: list[dict[str, Any]], size: int) -> Iterator[pa.Table]:
    fields = [FIELD, pa.field(COUNT, pa.int64()), *(aggregate.field for aggregate in AGGREGATES)]
    present = [row for row in rows if row["k"] is not None]
    for part in (
        *(present[at : at + size] for at in range(0, len(present), size)),
        [r for r in rows if r["k"] is None],
    ):
        if part:
            yield pa.Table.from_pylist(part, pa.schema(fields))


VALUES = st.lists(st.none() | st.integers(-9, 9) | st.sampled_from([(1 << 63) - 1, -(1 << 63)]), max_size=4)


@given(
    st.dictionaries(st.integers(0, 40) | st.none(), st.tuples(VALUES, VALUES), max_size=30),
    st.builds(
        Top,
        rows=st.integers(0, 12),
        first=st.sampled_from(["most", "fewest"]),
        ties=st.sampled_from(["any", "smallest", "largest"]),
        sum=st.sampled_from(["V", EXPRESSION.name]),
    ),
    st.integers(1, 7),
    st.sampled_from([0, 3, 1 << 16]),
    st.booleans(),
)
@settings(max_examples=100)
def test_the_first_groups_by_a_sum(
    groups: dict[int | None, tuple[Values, Values]], top: Top, size: int, held: int, nulls_first: bool
) -> None:
    ordered = sorted(groups.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))
    rows = [row(key, *values) for key, values in ordered]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "HELD_ROWS", held)
        kept = first_by_sum(tables(rows, size), top, FIELD, AGGREGATES).to_pylist()
    by_key = {row["k"]: row for row in rows}
    assert len({row["k"] for row in kept}) == len(kept) <= 2 * top.rows + 3
    assert all(by_key[row["k"]] == row for row in kept)
    for number in range(2):  # the group that proves that no sum overflows
        largest = max((bound(values[number]) for values in groups.values()), default=0)
        assert largest == max((bound(groups[row["k"]][number]) for row in kept), default=0)

    def rank(row: dict[str, Any]) -> Any:
        total, key = row["_sum_of_v" if top.sum == "V" else "_sum_of_w"], row["k"]
        place = Decimal(0) if total is None else -total if top.first == "most" else total
        tie = 0 if top.ties == "any" or key is None else key if top.ties == "smallest" else -key
        return (total is None) != nulls_first, place, key is None, tie

    wanted, found = (sorted(chosen, key=rank)[: top.rows] for chosen in (rows, kept))
    assert [rank(row) for row in found] == [rank(row) for row in wanted]
