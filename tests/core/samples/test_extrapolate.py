"""From sampled blocks to the whole table: sizes, seconds, and how keys are spread, against tables that are counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.samples.extrapolate import (
    BaseTable,
    Spread,
    build_seconds,
    index_bytes,
    keys_per_block,
    spread,
    spread_of_values,
    stored_rows,
    usefulness,
)
from hive_bitmap.core.samples.sampling import Cost, Sample

BASE = BaseTable(blocks=100, size=10_000, shards=4, workers=2)
COST = Cost(rows=30, data=50, group_overhead=7, groups=0.5, cardinalities=10, cardinality_overhead=3)
ONE = Sample(blocks=5, size=500, index_rows=50, keys=20, recurrences=40, cost=COST, seconds=0.5)
NONE = Sample(blocks=0, size=0, index_rows=0, keys=0, recurrences=0, cost=Cost(), seconds=0.0, reason="it is odd")


@pytest.mark.parametrize(
    ("base", "samples", "bytes"),
    [
        (BASE, [ONE], 60 * 20 + (4 + 10) * 7 + 4 * 3),
        (BASE, [ONE, ONE], 60 * 20 + (4 + 10) * 7 + 4 * 3),  # a larger sample of the same
        (BASE, [ONE, NONE], 60 * 20 + (4 + 10) * 7 + 4 * 3),
        (BASE, [ONE, replace(ONE, cost=replace(COST, group_overhead=9))], 60 * 20 + (4 + 10) * 9 + 4 * 3),
        (replace(BASE, size=0), [ONE], 4 * 7 + 4 * 3),
        (BASE, [NONE], 0),
        (BASE, [], 0),
    ],
)
def test_bytes_grow_with_the_table_and_overheads_with_its_shards(
    base: BaseTable, samples: list[Sample], bytes: int
) -> None:
    assert index_bytes(base, samples) == bytes


@pytest.mark.parametrize(
    ("base", "samples", "seconds"),
    [
        (BASE, [ONE], 5.0),
        (BASE, [ONE, ONE], 5.0),
        (replace(BASE, workers=4), [ONE], 2.5),
        (BASE, [NONE], 0.0),
        (BASE, [], 0.0),
    ],
)
def test_seconds_are_shared_by_the_workers(base: BaseTable, samples: list[Sample], seconds: float) -> None:
    assert build_seconds(base, samples) == pytest.approx(seconds)


def test_stored_rows_grow_with_the_table() -> None:
    assert [stored_rows(BASE, samples) for samples in ([ONE], [ONE, ONE], [NONE], [])] == [600, 600, 0, 0]


def sampled(held: np.ndarray, chosen: list[int]) -> Sample:
    """A sample of these blocks of a table in which held[key, block] says where keys are."""
    some = held[:, chosen]
    blocks = some.sum(1)
    return Sample(
        blocks=len(chosen),
        size=len(chosen),
        index_rows=int(some.sum()),
        keys=int(some.any(1).sum()),
        recurrences=int((blocks * (blocks - 1)).sum()),
        cost=Cost(),
        seconds=0.0,
    )


@pytest.mark.parametrize("chance", [0.05, 0.3, 1.0])
def test_keys_at_random_are_in_the_share_of_blocks_that_they_are_in(chance: float) -> None:
    held = np.random.default_rng(3).random((5000, 100)) < chance
    found = spread(BASE, [sampled(held, [3, 30, 60]), sampled(held, [5, 50, 90])])
    assert found is not None
    assert found.of_blocks == pytest.approx(held.mean(), abs=0.02)
    assert found.of_rows == pytest.approx(1 / 5000, rel=0.3)


@given(st.integers(1, 30), st.integers(2, 100))
def test_keys_of_one_block_each_are_found_as_such(keys: int, blocks: int) -> None:
    held = np.repeat(np.eye(blocks, dtype=bool), keys, axis=0)
    found = spread(replace(BASE, blocks=blocks), [sampled(held, [0, blocks - 1])])
    assert found == Spread(pytest.approx(1 / blocks), pytest.approx(1 / (keys * blocks)))


def test_no_fewer_keys_than_a_task_has_seen() -> None:
    found = spread(replace(BASE, blocks=2), [replace(ONE, keys=1000)])
    assert found is not None and found.of_rows == 1 / 1000


@pytest.mark.parametrize(("base", "samples"), [(replace(BASE, blocks=0), [ONE]), (BASE, [NONE]), (BASE, [])])
def test_where_nothing_can_be_indexed_nothing_is_spread(base: BaseTable, samples: list[Sample]) -> None:
    assert spread(base, samples) is None


def test_the_values_that_were_asked_for() -> None:
    one = replace(ONE, rows=1000, value_rows=30.0, value_blocks=2.0)
    other = replace(ONE, rows=500, value_rows=0.0, value_blocks=0.0)
    assert spread_of_values([one, other]) == Spread(2 / 10, 30 / 1500)
    assert spread_of_values([other]) is None
    assert spread_of_values([]) is None


def test_keys_of_a_block() -> None:
    assert (keys_per_block([ONE, replace(ONE, blocks=20)]), keys_per_block([NONE])) == (100 / 25, 0)


@pytest.mark.parametrize(
    ("base", "samples", "found", "said"),
    [
        (replace(BASE, blocks=0), [], None, "the table has no rows that can be indexed"),
        (BASE, [NONE], None, "no sampled block can be indexed: it is odd"),
        (
            replace(BASE, blocks=1),
            [replace(ONE, blocks=1, index_rows=1234)],
            Spread(1.0, 0.1),
            "there is one block, with 1,234 keys: an equality skips rows, not blocks",
        ),
        (
            BASE,
            [ONE],
            Spread(0.25, 0.000123),
            "on average a key is in 25% of the blocks and selects 0.012 % of the rows: "
            "an equality skips about 75% of the blocks",
        ),
    ],
)
def test_what_an_equality_would_skip(base: BaseTable, samples: list[Sample], found: Spread | None, said: str) -> None:
    assert usefulness(base, samples, found) == said
