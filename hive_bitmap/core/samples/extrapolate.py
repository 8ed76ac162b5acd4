"""Extrapolate from sampled blocks to the size, build time and usefulness of an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.core.samples.sampling import Sample


@dataclass(frozen=True)
class BaseTable:
    """The figures of a base table that determine the cost of one index."""

    blocks: int  # blocks with rows
    size: int  # bytes of the index's key columns in these blocks
    shards: int  # shards that a build would write
    workers: int  # concurrent tasks of such a build


def index_bytes(base: BaseTable, samples: Sequence[Sample]) -> int:
    """Estimate the bytes of an index.

    These are the bytes of all its shards and of their files with cardinalities.
    """
    costs = [sample.cost for sample in samples if sample.blocks]
    scale = _scale(base, samples)
    groups = base.shards + int(scale * sum(cost.groups for cost in costs))
    overhead = groups * max((cost.group_overhead for cost in costs), default=0)
    overhead += base.shards * max((cost.cardinality_overhead for cost in costs), default=0)
    return round(sum(cost.data + cost.cardinalities for cost in costs) * scale + overhead)


def stored_rows(base: BaseTable, samples: Sequence[Sample]) -> float:
    """Estimate the number of rows of an index table."""
    return sum(sample.cost.rows for sample in samples) * _scale(base, samples)


def build_seconds(base: BaseTable, samples: Sequence[Sample]) -> float:
    """Estimate the seconds that the concurrent tasks take to build one index.

    The work of the samples is scaled up to the table, and divided among the workers.
    """
    return sum(sample.seconds for sample in samples) * _scale(base, samples) / base.workers


@dataclass(frozen=True)
class Spread:
    """How the keys of an index are spread over its table.

    An average key occurs in the share `of_blocks` of all blocks, and in the share `of_rows` of all rows. Shares are
    from 0 to 1.
    """

    of_blocks: float
    of_rows: float


def spread(base: BaseTable, samples: Sequence[Sample]) -> Spread | None:
    """Estimate the spread of an average key.

    Return None if the table has no blocks, or if no sampled block can be indexed.
    """
    indexed = [sample for sample in samples if sample.blocks]
    if not base.blocks or not indexed:
        return None
    pairs = sum(sample.index_rows * (sample.blocks - 1) for sample in indexed)
    # The probability that a key of one block is also in another: the average share of blocks that hold a key.
    recurrence = sum(sample.recurrences for sample in indexed) / max(1, pairs)
    share = (1 + recurrence * (base.blocks - 1)) / base.blocks
    keys = max(keys_per_block(indexed) / share, *(sample.keys for sample in indexed), 1)
    return Spread(share, 1 / keys)


def spread_of_values(samples: Sequence[Sample]) -> Spread | None:
    """Estimate the mean spread of the values that queries compare the column with.

    The values are `SampleItem.values`. Return None if no sampled block has any of these values.
    """
    blocks, rows = sum(sample.blocks for sample in samples), sum(sample.rows for sample in samples)
    of_blocks, of_rows = sum(sample.value_blocks for sample in samples), sum(sample.value_rows for sample in samples)
    return Spread(of_blocks / blocks, of_rows / rows) if of_rows else None


def keys_per_block(samples: Sequence[Sample]) -> float:
    """Return the average number of keys in an indexed block."""
    return sum(sample.index_rows for sample in samples) / max(1, sum(sample.blocks for sample in samples))


def usefulness(base: BaseTable, samples: Sequence[Sample], key_spread: Spread | None) -> str:
    """Describe what an equality predicate would skip, in a sentence.

    `key_spread` is the spread of an average key; None if no sampled block can be indexed.
    """
    if not base.blocks:
        return "the table has no rows that can be indexed"
    if key_spread is None:
        return f"no sampled block can be indexed: {samples[0].reason}"
    if base.blocks == 1:
        return f"there is one block, with {keys_per_block(samples):,.0f} keys: an equality skips rows, not blocks"
    return (
        f"on average a key is in {key_spread.of_blocks:.0%} of the blocks and selects "
        f"{100 * key_spread.of_rows:.2g} % of the rows: an equality skips about {1 - key_spread.of_blocks:.0%} of the "
        "blocks"
    )


def _scale(base: BaseTable, samples: Sequence[Sample]) -> float:
    """Return the key bytes of the table, divided by the samples' key bytes."""
    return base.size / max(1, sum(sample.size for sample in samples))
