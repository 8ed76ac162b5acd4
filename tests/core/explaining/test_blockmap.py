"""The map of a plan: which files are drawn, in which order, and what their cells add up to."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.explaining import blockmap
from tests.core.explaining.test_explain import FRESH, THREE, make_plan

STALE = ("stale", "size differs", True)
FILES = st.lists(
    st.one_of(
        st.tuples(st.just(FRESH), st.lists(st.tuples(st.just(10), st.sampled_from([0, 0, 1, 10])), max_size=7)),
        st.tuples(st.just(STALE), st.just([])),
    ),
    max_size=6,
)


@given(FILES, st.integers(1, 7), st.integers(1, 4), st.integers(0, 99))
def test_files_of_which_something_is_read_are_drawn_first_and_the_rest_is_counted(
    files: list[tuple[tuple[str, str, bool], list[tuple[int, int]]]], max_files: int, max_cells: int, seed: int
) -> None:
    plan = make_plan([(f"file:/w/{n}", f"p={n}", state, blocks) for n, (state, blocks) in enumerate(files)])
    shuffled = plan.blocks.take(np.random.default_rng(seed).permutation(len(plan.blocks)))
    plan = dataclasses.replace(plan, blocks=shuffled)
    kept = [state[2] or any(selected for _, selected in blocks) for state, blocks in files]
    assert plan.kept_files.tolist() == kept
    first = sorted(range(len(files)), key=lambda number: (not kept[number], number))[:max_files]
    drawn = blockmap.block_map(plan, max_files, max_cells)
    assert [row.name for row in drawn.rows] == [str(number) for number in sorted(first)]
    assert drawn.more == len(files) - len(first)
    assert drawn.kept_more == sum(kept) - sum(kept[number] for number in first)
    for number, row in zip(sorted(first), drawn.rows, strict=True):
        state, blocks = files[number]
        assert (row.path, row.partition, row.size) == (f"file:/w/{number}", f"p={number}", 4 + 100 * len(blocks))
        assert (row.state, row.reason, row.scanned) == state
        assert len(row.cells) == row.cells.blocks.size <= max_cells
        bounds = [*row.cells.first.tolist(), len(blocks)]
        parts = [blocks[a:b] for a, b in pairwise(bounds)]
        assert bounds[0] == 0 and sum(map(len, parts)) == len(blocks)
        assert row.cells.blocks.tolist() == [len(part) for part in parts]
        assert len({len(part) for part in parts[:-1]}) <= 1  # all but the last have equally many
        assert row.cells.rows.tolist() == [sum(rows for rows, _ in part) for part in parts]
        shares = [sum(selected for _, selected in part) / (10 * len(part)) for part in parts]
        assert row.cells.share().tolist() == shares


def test_cells_hold_every_block_once() -> None:
    generator = np.random.default_rng(7)
    selected = generator.integers(0, 50, 1003)
    plan = make_plan([("file:/w/a", "", FRESH, [(50, int(s)) for s in selected])])
    shuffled = dataclasses.replace(plan, blocks=plan.blocks.take(generator.permutation(1003)))
    (row,) = blockmap.block_map(shuffled, 10, 100).rows
    assert len(row.cells) <= 100
    assert row.cells.blocks.sum() == 1003
    assert row.cells.length.sum() == 100_300
    bounds = [*row.cells.first.tolist(), 1003]
    expected = [selected[a:b].sum() for a, b in pairwise(bounds)]
    assert row.cells.selected.tolist() == expected
    assert row.cells.offset.tolist() == [4 + 100 * first for first in bounds[:-1]]


def test_unknown_rows_count_as_none() -> None:
    blocks = THREE.blocks.set_column(4, "selected", pa.nulls(len(THREE.blocks), pa.int64()))
    assert dataclasses.replace(THREE, blocks=blocks).kept_files.tolist() == [False, False, True]


def test_a_cell_without_rows_has_no_share() -> None:
    (row,) = blockmap.block_map(make_plan([("file:/w/a", "", FRESH, [(0, 0), (4, 1)])]), 1, 2).rows
    assert row.cells.share().tolist() == [0, 0.25]
