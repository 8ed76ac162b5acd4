"""Every wrong aggregate of a stored row is found, and none that is right or unknown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.auditing.compare import MOST_MESSAGES, compare_block
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Aggregate
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.indexing.group_indexing import index_rows

V = Column("v", "decimal(9,2)")
OF_V = tuple(Aggregate(function, V) for function in FUNCTIONS)
INDEX = Definition(
    name="i", database="db", table="t", columns=(Column("k", "int"),), aggregates=(Aggregate("count"), *OF_V)
)


def block(values: list[tuple[int | None, int | None]]) -> tuple[pa.Table, dict[Column, pa.ChunkedArray]]:
    amounts = [None if amount is None else Decimal(amount).scaleb(-2) for _, amount in values]
    keys = pa.table({"k": pa.array([key for key, _ in values], pa.int32())})
    return keys, {V: pa.chunked_array([pa.array(amounts, pa.decimal128(9, 2))])}


def replaced(rows: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    column = rows[name].to_pylist()
    column[row] = value
    return rows.set_column(rows.schema.get_field_index(name), name, pa.array(column, rows.schema.field(name).type))


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(-9, 9)), min_size=1, max_size=20),
    st.data(),
)
@settings(max_examples=40)
def test_one_wrong_value_is_one_problem(values: list[tuple[int | None, int | None]], data: st.DataObject) -> None:
    keys, aggregated = block(values)
    rows = index_rows(INDEX, keys, "file:/t", 4, aggregated)
    assert compare_block(INDEX, keys, rows, aggregated).count == 0
    assert compare_block(INDEX, keys, index_rows(INDEX, keys, "file:/t", 4), aggregated).count == 0  # all unknown
    field = data.draw(st.sampled_from(INDEX.aggregate_fields))
    row = data.draw(st.integers(0, rows.num_rows - 1))
    before = rows[field.name][row].as_py()
    wrong = data.draw(st.sampled_from([1000, -1000, None]).filter(lambda value: value != before))
    problems = compare_block(INDEX, keys, replaced(rows, field.name, row, wrong), aggregated)
    others = rows.select([aggregate.field.name for aggregate in OF_V]).slice(row, 1).to_pylist()[0]
    known = sum(value is not None for value in others.values())
    unknown_count = (field.name, wrong) == ("_count_of_v", None)
    # Without a count the others must be NULL, too.
    assert problems.count == (known - 1 if unknown_count else 1)
    assert all("of the block have" in message for message in problems.messages)


def test_what_cannot_be_read_is_not_compared() -> None:
    keys, aggregated = block([(1, 5), (1, 6)])
    rows = replaced(index_rows(INDEX, keys, "file:/t", 4, aggregated), "_sum_of_v", 0, Decimal(7))
    [message] = compare_block(INDEX, keys, rows, aggregated).messages
    assert message == "key (k=1) has sum(v) = 7.00, but its rows of the block have 0.11"
    assert compare_block(INDEX, keys, rows).count == 0


def test_all_are_counted_and_the_first_are_described() -> None:
    keys, aggregated = block([(key, key) for key in range(100)])
    rows = index_rows(INDEX, keys, "file:/t", 4, aggregated)
    wrong = rows.set_column(rows.schema.get_field_index("_count_of_all"), "_count_of_all", pa.array([2] * 100))
    problems = compare_block(INDEX, keys, wrong, aggregated)
    assert problems.count == 100 and len(problems.messages) == MOST_MESSAGES
