"""Extrapolation from sampled blocks to the size, build time and usefulness of an index on the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.estimating.sampling import Sample


@dataclass(frozen=True)
class BaseTable:
    """The facts about the base table on which the cost of one index depends."""

    blocks: int  # blocks with rows
    size: int  # bytes of the index's key columns in these blocks
    shards: int  # shards that a build would write
    workers: int  # tasks that such a build would run at the same time


def index_bytes(base: BaseTable, samples: Sequence[Sample]) -> int:
    """Estimate the bytes of all shards and their cardinalities."""
    costs = [sample.cost for sample in samples if sample.blocks]
    scale = _scale(base, samples)
    groups = base.shards + int(scale * sum(cost.groups for cost in costs))
    overhead = groups * max((cost.group_overhead for cost in costs), default=0)
    overhead += base.shards * max((cost.cardinality_overhead for cost in costs), default=0)
    return round(sum(cost.data + cost.cardinalities for cost in costs) * scale + overhead)


def build_seconds(base: BaseTable, samples: Sequence[Sample]) -> float:
    """Estimate how long the tasks of a build would run."""
    return sum(sample.seconds for sample in samples) * _scale(base, samples) / base.workers


def usefulness(base: BaseTable, samples: Sequence[Sample]) -> str:
    """Return a sentence on what an equality predicate would skip."""
    if not base.blocks:
        return "the table has no rows that can be indexed"
    good = [sample for sample in samples if sample.blocks]
    if not good:
        return f"no sampled block can be indexed: {samples[0].reason}"
    per_block = sum(sample.index_rows for sample in good) / sum(sample.blocks for sample in good)
    if base.blocks == 1:
        return f"there is one block, with {per_block:,.0f} keys: an equality skips rows, not blocks"
    others = sum(sample.index_rows * (sample.blocks - 1) for sample in good)
    # The probability that a key of one block is also in another, and so the average share of blocks that hold a key.
    recurrence = sum(sample.recurrences for sample in good) / max(1, others)
    share = (1 + recurrence * (base.blocks - 1)) / base.blocks
    keys = max(per_block / share, *(sample.keys for sample in good), 1)
    return (
        f"on average a key is in {share:.0%} of the blocks and selects {100 / keys:.2g} % of the rows: "
        f"an equality skips about {1 - share:.0%} of the blocks"
    )


def _scale(base: BaseTable, samples: Sequence[Sample]) -> float:
    """Return the ratio of the bytes of the key columns in the table to those in the samples."""
    return base.size / max(1, sum(sample.size for sample in samples))
