"""Tests of the choice of sampled blocks, and of a shard that is simulated from a few blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.spark.estimating import resample
from hive_bitmap.spark.estimating.resample import resampled
from hive_bitmap.spark.estimating.sampling import FEWEST_BLOCKS, choose_blocks

SAMPLED, BLOCKS, FILES = 8, 80, 10


@given(
    blocks=st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10**6)), max_size=200),
    share=st.floats(0.001, 1.0),
)
@settings(max_examples=200, deadline=None)
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


def sample(held: np.ndarray) -> pa.Table:
    """Return the sorted rows of an index on SAMPLED blocks, one in each file; held[k, b]: block b holds key k."""
    key, block = np.nonzero(held)
    return pa.table({"k": key, "_bucketname": [f"file:/t/{b}" for b in block], "_offset": np.full(len(key), 4)})


def pairs(held: np.ndarray, blocks: int = BLOCKS) -> tuple[float, float, float]:
    """Simulate a shard; return its numbers of blocks, of pairs of key and block, and of pairs of key and file."""
    simulated, parts = resampled(sample(held), ["k"], SAMPLED, blocks, FILES)
    files = [len(set(zip(t["k"].to_pylist(), t["_bucketname"].to_pylist(), strict=True))) * n for t, n in parts]
    for table, _ in parts:
        places = list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
        assert places == sorted(set(places))
    return simulated, sum(table.num_rows * times for table, times in parts), sum(files)


def test_keys_of_all_blocks_are_in_all_blocks() -> None:
    assert pairs(np.ones((50, SAMPLED), bool)) == (BLOCKS, 50 * BLOCKS, 50 * FILES)


def test_keys_of_one_block_each_stay_so() -> None:
    held = np.zeros((800, SAMPLED), bool)
    held[np.arange(800), np.arange(800) // 100] = True
    assert pairs(held) == (BLOCKS, 800 * BLOCKS / SAMPLED, 800 * BLOCKS / SAMPLED)


@pytest.mark.parametrize("chance", [0.05, 0.3, 0.6, 0.9])
def test_keys_at_random_are_in_as_many_blocks_and_files_as_by_chance(chance: float) -> None:
    random = np.random.default_rng(4)
    held = random.random((4000, SAMPLED)) < chance
    blocks, found, files = pairs(held[held.any(1)])
    assert blocks == BLOCKS
    assert found == pytest.approx(4000 * BLOCKS * chance, rel=0.1)
    assert files == pytest.approx(4000 * FILES * (1 - (1 - chance) ** (BLOCKS / FILES)), rel=0.25)


def test_a_shard_that_would_be_too_large_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resample, "MOST_ROWS", 1000)
    held = np.ones((50, SAMPLED), bool)
    assert pairs(held)[:2] == (20, 1000)
