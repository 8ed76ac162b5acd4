"""Partial aggregates of a block, against Python's integers and `decimal.Decimal`: no sum wraps."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.auditing.aggregate_check import expected_aggregate
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Aggregate, merged, partials

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
EXACT = Context(prec=200)


def stored(
    type: str, values: Sequence[Any], keys: Sequence[int], functions: Sequence[str] = FUNCTIONS
) -> list[list[Any]]:
    """Each aggregate of these values by key, as a build computes it and as `verify` does."""
    aggregates = [Aggregate(function, Column("v", type)) for function in functions]
    number = {key: place for place, key in enumerate(sorted(set(keys)))}
    kind = aggregates[-1].field.type if functions[-1] != "count" else pa.string()
    half = len(values) // 2
    array = pa.chunked_array([pa.array(values[:half], kind), pa.array(values[half:], kind)])
    rows = np.array([keys.count(key) for key in number], np.int64)
    built = partials(aggregates, np.array(keys, np.uint16), rows, array)
    numbers = np.array([number[key] for key in keys])
    checked = [expected_aggregate(a, numbers, np.arange(len(number)), array) for a in aggregates]
    assert [b.to_pylist() for b in built] == [c.to_pylist() for c in checked]
    assert [b.type for b in built] == [a.field.type for a in aggregates]
    return [b.to_pylist() for b in built]


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, list[Any], list[int]]:
    """A type, values near its limits and NULLs, and the key of each."""
    if draw(st.booleans()):
        type = draw(st.sampled_from(sorted(BITS)))
        bound = 1 << (BITS[type] - 1)
        value: st.SearchStrategy[Any] = st.integers(-bound, bound - 1) | st.sampled_from([-bound, bound - 1])
    else:
        digits = draw(st.integers(1, 38))
        scale = draw(st.integers(0, digits))
        type, most = f"decimal({digits},{scale})", 10**digits - 1
        whole = st.integers(-most, most) | st.sampled_from([-most, most])
        value = whole.map(lambda unscaled: Decimal(unscaled).scaleb(-scale, EXACT))
    rows = draw(st.lists(st.tuples(st.none() | value, st.sampled_from([0, 1, 7, 300])), min_size=1, max_size=30))
    return type, [value for value, _ in rows], [key for _, key in rows]


@given(columns())
def test_aggregates_are_exact(drawn: tuple[str, list[Any], list[int]]) -> None:
    type, values, keys = drawn
    sums, counts, lows, highs = stored(type, values, keys)
    for place, key in enumerate(sorted(set(keys))):
        held = [v for v, k in zip(values, keys, strict=True) if k == key and v is not None]
        assert counts[place] == len(held)
        assert (lows[place], highs[place]) == (min(held, default=None), max(held, default=None))
        total = Decimal(0)
        for value in held:
            total = EXACT.add(total, Decimal(value))
        digits = max(len(total.as_tuple().digits), -int(total.as_tuple().exponent))
        assert sums[place] == (total if held and digits <= 38 else None)


def test_a_sum_of_64_bits_and_more() -> None:
    most = 2**63 - 1
    assert stored("bigint", [most, most, -most - 1, None], [1, 1, 0, 0]) == [
        [Decimal(-most - 1), Decimal(2 * most)],
        [1, 2],
        [-most - 1, most],
        [-most - 1, most],
    ]


def test_a_sum_of_more_than_38_digits_is_null() -> None:
    most, least = Decimal(10**38 - 1), Decimal(1 - 10**38)
    assert stored("decimal(38,0)", [most, Decimal(1), least, most, None], [0, 0, 1, 1, 2]) == [
        [None, Decimal(0), None],
        [2, 2, 0],
        [Decimal(1), least, None],
        [most, most, None],
    ]


def test_dates_have_a_least_and_a_greatest() -> None:
    first, last = datetime.date(1582, 10, 15), datetime.date(9999, 12, 31)
    assert stored("date", [last, None, first, None], [0, 0, 0, 1], ("count", "min", "max")) == [
        [2, 0],
        [first, None],
        [last, None],
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.float64(), pa.bool_()])
def test_every_type_is_counted(kind: pa.DataType) -> None:
    values = pa.chunked_array([pa.nulls(3, kind), pa.array(["0", None, "1"]).cast(kind)])
    for column in (values, values.dictionary_encode()):
        [counts] = partials(
            [Aggregate("count", Column("v", "string"))], np.array([0, 1, 0, 0, 1, 1]), np.array([3, 3]), column
        )
        assert counts.to_pylist() == [1, 1]


def test_unknown_values_make_all_aggregates_null() -> None:
    aggregates = [Aggregate(function, Column("v", "int")) for function in FUNCTIONS]
    unknown = partials(aggregates, np.array([0, 1]), np.array([1, 1]), None)
    assert [array.to_pylist() for array in unknown] == [[None, None]] * 4
    [rows] = partials([Aggregate("count")], np.array([0, 1, 1]), np.array([1, 2]), None)
    assert rows.to_pylist() == [1, 2]


@given(columns(), st.integers(1, 5))
def test_those_of_a_file_are_merged_from_its_blocks(drawn: tuple[str, list[Any], list[int]], size: int) -> None:
    type, values, keys = drawn
    aggregates = [Aggregate("count"), *(Aggregate(function, Column("v", type)) for function in FUNCTIONS)]
    whole = dict(zip(sorted(set(keys)), zip(*stored(type, values, keys), strict=True), strict=True))
    blocks, of_rows, lost = [], list[int](), set[int]()
    for first in range(0, len(values), size):
        block, of_block = values[first : first + size], keys[first : first + size]
        columns = [[of_block.count(key) for key in sorted(set(of_block))], *stored(type, block, of_block)]
        arrays = [pa.array(column, a.field.type) for column, a in zip(columns, aggregates, strict=True)]
        blocks.append(pa.table(arrays, [aggregate.field.name for aggregate in aggregates]))
        of_rows += sorted(set(of_block))
        lost |= {
            key
            for key, total, count in zip(sorted(set(of_block)), *columns[1:3], strict=True)
            if count and total is None
        }
    distinct, groups = np.unique(np.array(of_rows), return_inverse=True)
    order = np.argsort(groups, kind="stable")
    found = merged(aggregates, pa.concat_tables(blocks).take(pa.array(order)), groups[order])
    assert found.schema == pa.schema([aggregate.field for aggregate in aggregates])
    for key, row in zip(distinct.tolist(), found.to_pylist(), strict=True):
        expected = whole[key] if key not in lost else (None, *whole[key][1:])
        assert tuple(row.values()) == (keys.count(key), *expected)


def test_unknown_values_of_a_block_are_unknown_in_its_file() -> None:
    aggregates = [Aggregate(function, Column("v", "int")) for function in FUNCTIONS]
    arrays = [[Decimal(3), None, Decimal(5)], [1, None, 1], [3, None, 5], [3, None, 5]]
    rows = pa.table([pa.array(a, g.field.type) for a, g in zip(arrays, aggregates, strict=True)],
                    [aggregate.field.name for aggregate in aggregates])  # fmt: skip
    found = merged(aggregates, rows, np.array([0, 0, 1]))
    assert [tuple(row.values()) for row in found.to_pylist()] == [(None, None, None, None), (Decimal(5), 1, 5, 5)]
