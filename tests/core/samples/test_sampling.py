"""Tests of the choice of sampled blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.samples.sampling import FEWEST_BLOCKS, choose_blocks


@given(
    blocks=st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10**6)), max_size=200),
    share=st.floats(0.001, 1.0),
)
@settings(max_examples=200)
def test_no_more_blocks_are_chosen_than_asked_for(blocks: list[tuple[int, int]], share: float) -> None:
    rows, size = (np.array([block[which] for block in blocks], np.int64) for which in (0, 1))
    chosen = choose_blocks(rows, size, share)
    assert len(chosen) == min(len(blocks), max(FEWEST_BLOCKS, int(len(blocks) * share)))
    assert chosen.tolist() == sorted(set(chosen.tolist()) & set(range(len(blocks))))


@pytest.mark.parametrize("light", [0.25, 0.5, 0.75])
def test_light_and_heavy_blocks_are_met_as_often_as_they_are(light: float) -> None:
    random = np.random.default_rng(1)
    size = np.where(random.permutation(80) < 80 * light, 300, 20_000) + random.integers(0, 50, 80)
    chosen = choose_blocks(np.full(80, 1000), size, 0.05)
    assert (size[chosen] < 1000).mean() == light
    assert size[chosen].sum() * 20 == pytest.approx(size.sum(), rel=0.01)
