"""Test `ragged.take` against Arrow's `take`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import ragged

LISTS = st.lists(st.lists(st.integers(-(1 << 15), (1 << 15) - 1), max_size=9), max_size=9)


@given(LISTS, st.data(), st.sampled_from([pa.int16(), pa.int32(), pa.int64()]), st.integers(0, 3))
def test_lists_are_taken_as_arrow_takes_them(
    lists: list[list[int]], data: st.DataObject, type: pa.DataType, sliced: int
) -> None:
    column = pa.array(lists, pa.list_(type)).slice(sliced)
    places = st.lists(st.integers(0, len(column) - 1), max_size=12) if len(column) else st.just([])
    order = pa.array(data.draw(places), pa.int64())
    taken = ragged.take(column, order)
    taken.validate(full=True)
    assert taken.equals(column.take(order))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, None], [2]], pa.list_(pa.int32())),
        pa.array([None, [2]], pa.list_(pa.int32())),
        pa.array([b"one", None]),
    ],
)
def test_what_is_no_list_of_numbers_is_taken_by_arrow(column: pa.Array) -> None:
    order = pa.array([1, 0, 1])
    assert ragged.take(column, order).equals(column.take(order))


def test_lists_too_large_for_one_binary_array_are_taken_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragged, "_MOST_BYTES", 8)
    column = pa.array([[1, 2], [3]], pa.list_(pa.int64()))
    assert ragged.take(column, pa.array(np.array([1, 0]))).to_pylist() == [[3], [1, 2]]
