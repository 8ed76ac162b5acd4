"""Extrapolation from sampled blocks to the size, build time and usefulness of an index on the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.spark.estimating.sampling import Sample


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


@dataclass(frozen=True)
class Spread:
    """How the keys of an index are spread over its table.

    An average key is in the share `of_blocks` of the blocks and has the share `of_rows` of the rows.
    """

    of_blocks: float
    of_rows: float


def spread(base: BaseTable, samples: Sequence[Sample]) -> Spread | None:
    """Estimate how the keys are spread; None if there is no block, or none that was sampled can be indexed."""
    good = [sample for sample in samples if sample.blocks]
    if not base.blocks or not good:
        return None
    others = sum(sample.index_rows * (sample.blocks - 1) for sample in good)
    # The probability that a key of one block is also in another, and so the average share of blocks that hold a key.
    recurrence = sum(sample.recurrences for sample in good) / max(1, others)
    share = (1 + recurrence * (base.blocks - 1)) / base.blocks
    keys = max(keys_per_block(good) / share, *(sample.keys for sample in good), 1)
    return Spread(share, 1 / keys)


def spread_of_values(samples: Sequence[Sample]) -> Spread | None:
    """Estimate the same of an average one of the values that were asked for; None if no sampled block has one."""
    blocks, rows = sum(sample.blocks for sample in samples), sum(sample.rows for sample in samples)
    of_blocks, of_rows = sum(sample.value_blocks for sample in samples), sum(sample.value_rows for sample in samples)
    return Spread(of_blocks / blocks, of_rows / rows) if of_rows else None


def keys_per_block(samples: Sequence[Sample]) -> float:
    """Return the average number of keys in a block that was indexed."""
    return sum(sample.index_rows for sample in samples) / max(1, sum(sample.blocks for sample in samples))


def usefulness(base: BaseTable, samples: Sequence[Sample], found: Spread | None) -> str:
    """Return a sentence on what an equality predicate would skip."""
    if not base.blocks:
        return "the table has no rows that can be indexed"
    if found is None:
        return f"no sampled block can be indexed: {samples[0].reason}"
    if base.blocks == 1:
        return f"there is one block, with {keys_per_block(samples):,.0f} keys: an equality skips rows, not blocks"
    return (
        f"on average a key is in {found.of_blocks:.0%} of the blocks and selects {100 * found.of_rows:.2g} % of the "
        f"rows: an equality skips about {1 - found.of_blocks:.0%} of the blocks"
    )


def _scale(base: BaseTable, samples: Sequence[Sample]) -> float:
    """Return the ratio of the bytes of the key columns in the table to those in the samples."""
    return base.size / max(1, sum(sample.size for sample in samples))
