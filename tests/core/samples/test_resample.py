"""A shard that is simulated from a few blocks: keys are in as many blocks and files as in one that was built."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.samples import sampling
from hive_bitmap.core.samples.sampling import resampled

SAMPLED, BLOCKS, FILES = 8, 80, 10


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
    monkeypatch.setattr(sampling, "MOST_ROWS", 1000)
    held = np.ones((50, SAMPLED), bool)
    assert pairs(held)[:2] == (20, 1000)


def test_no_key_is_no_row() -> None:
    schema = pa.schema([("k", pa.int32()), ("_bucketname", pa.string()), ("_offset", pa.int64())])
    simulated, parts = resampled(schema.empty_table(), ["k"], SAMPLED, BLOCKS, FILES)
    assert (simulated, [table.num_rows for table, _ in parts]) == (BLOCKS, [0, 0])


def test_one_block_says_that_its_keys_may_be_in_any_other() -> None:
    rows = pa.table({"k": [1, 2], "_bucketname": ["f", "f"], "_offset": [4, 4], "more": ["x", "y"]})
    simulated, [(recurring, _), (single, weight)] = resampled(rows, ["k"], 1, 10, 2.0)
    assert (simulated, recurring.num_rows, single.column_names) == (10, 0, ["k", "_bucketname", "_offset"])
    assert single.num_rows * weight == pytest.approx(20, rel=0.2)  # as many pairs as the blocks have


def test_a_key_may_have_the_name_of_a_result_of_arrow() -> None:
    rows = sample(np.ones((3, 2), bool)).append_column("_cardinality", pa.array([7] * 6, pa.int32()))
    named = rows.rename_columns(["count_all", *rows.column_names[1:]])
    definition = Definition(name="i", database="db", table="t", columns=(Column("count_all", "bigint"),))
    simulated, parts = resampled(named, ["count_all"], 2, 4, 2)
    assert simulated == 4 and parts[0][0].column_names == ["count_all", "_bucketname", "_offset"]
    keys, blocks, counts = sampling._counted_keys(named, definition)
    assert keys.to_pydict() == {"count_all": [0, 1, 2]} and blocks.tolist() == [2] * 3 and counts.tolist() == [14] * 3


def test_keys_of_several_columns() -> None:
    rows = pa.table(
        {
            "a": [1, 1, 1, None],
            "b": ["x", "x", "y", None],
            "_bucketname": ["f", "g", "f", "g"],
            "_offset": [4, 4, 4, 4],
        }
    )
    _, [(recurring, _), (single, _)] = resampled(rows, ["a", "b"], 2, 2, 2.0)
    assert {tuple(row.values())[:2] for row in recurring.to_pylist()} == {(1, "x")}
    assert {tuple(row.values())[:2] for row in single.to_pylist()} == {(1, "y"), (None, None)}


def test_blocks_that_hold_nearly_all_keys_stay_apart_from_the_others() -> None:
    held = np.zeros((1000, SAMPLED), bool)
    held[:, :4] = True
    held[np.arange(1000), 4 + np.arange(1000) % 4] = True
    rows, (recurring, single) = resampled(sample(held), ["k"], SAMPLED, BLOCKS, FILES)
    assert rows == BLOCKS and single[0].num_rows == 0
    counts = recurring[0].group_by(["_bucketname", "_offset"]).aggregate([("k", "count")])["k_count"].to_numpy()
    assert (counts == 1000).sum() == BLOCKS // 2 and counts.sum() == pytest.approx(1000 * BLOCKS * 5 / 8, rel=0.05)
