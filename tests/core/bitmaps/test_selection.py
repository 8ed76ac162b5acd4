"""Test selections against Python sets of (block, row)."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import selection

row_counts = st.lists(st.integers(0, 40) | st.sampled_from([512, 513, 600]), min_size=1, max_size=6)


def pairs(bits: np.ndarray, where: selection.BitLayout) -> set[tuple[int, int]]:
    return {(block, row) for block in range(len(where.rows)) for row in selection.rows(bits, where, block).tolist()}


def some(where: selection.BitLayout, seed: int) -> np.ndarray:
    full = selection.everything(where)
    return np.random.default_rng(seed).integers(0, 256, len(full), np.uint8) & full


@settings(max_examples=100)
@given(row_counts, st.data())
def test_nothing_everything_and_some_blocks(rows: list[int], data: st.DataObject) -> None:
    where = selection.layout(rows)
    chosen = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True))
    assert pairs(selection.nothing(where), where) == set()
    assert pairs(selection.everything(where), where) == {(b, r) for b, n in enumerate(rows) for r in range(n)}
    assert pairs(selection.everything_in(where, chosen), where) == {(b, r) for b in chosen for r in range(rows[b])}
    assert selection.counts(selection.everything_in(where, chosen), where).tolist() == [
        n if b in chosen else 0 for b, n in enumerate(rows)
    ]


@settings(max_examples=50)
@given(row_counts, st.integers(0, 1000), st.integers(0, 1000))
def test_operators_are_those_of_sets(rows: list[int], one: int, two: int) -> None:
    where = selection.layout(rows)
    left, right = some(where, one), some(where, two)
    assert pairs(left & right, where) == pairs(left, where) & pairs(right, where)
    assert pairs(left | right, where) == pairs(left, where) | pairs(right, where)
    assert pairs(selection.and_not(left, right), where) == pairs(left, where) - pairs(right, where)
    assert selection.counts(left, where).sum() == len(pairs(left, where))


def test_a_layout_without_blocks() -> None:
    where = selection.layout([])
    assert len(selection.everything(where)) == 0
    assert selection.counts(selection.nothing(where), where).tolist() == []


def test_rows_are_least_significant_bit_first() -> None:
    where = selection.layout([9, 3])
    assert where.starts.tolist() == [0, 2, 3]
    assert selection.rows(np.array([0b10000001, 1, 0b110], np.uint8), where, 0).tolist() == [0, 7, 8]
    assert selection.rows(np.array([0b10000001, 1, 0b110], np.uint8), where, 1).tolist() == [1, 2]
