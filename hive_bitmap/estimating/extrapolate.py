"""From what a few blocks of a table took to what an index on all of it would take, and be good for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.estimating.sampling import Sample


@dataclass(frozen=True)
class BaseTable:
    """The base table, as the price of one index depends on it."""

    blocks: int  # that hold rows
    size: int  # bytes that the key columns of the index take in them
    shards: int  # that a build would make of them
    workers: int  # tasks at once of that build


def index_bytes(whole: BaseTable, samples: Sequence[Sample]) -> int:
    """The bytes of all shards and their cardinalities."""
    took = [sample.took for sample in samples if sample.blocks]
    scale = _scale(whole, samples)
    groups = whole.shards + int(scale * sum(each.groups for each in took))
    framing = groups * max((each.frame for each in took), default=0)
    framing += whole.shards * max((each.cardinality_frame for each in took), default=0)
    return round(sum(each.data + each.cardinalities for each in took) * scale + framing)


def build_seconds(whole: BaseTable, samples: Sequence[Sample]) -> float:
    """How long the tasks of a build would run."""
    return sum(sample.seconds for sample in samples) * _scale(whole, samples) / whole.workers


def usefulness(whole: BaseTable, samples: Sequence[Sample]) -> str:
    """A sentence on what an equality would skip."""
    if not whole.blocks:
        return "the table has no rows that can be indexed"
    good = [sample for sample in samples if sample.blocks]
    if not good:
        return f"no sampled block can be indexed: {samples[0].reason}"
    per_block = sum(sample.index_rows for sample in good) / sum(sample.blocks for sample in good)
    if whole.blocks == 1:
        return f"there is one block, with {per_block:,.0f} keys: an equality skips rows, not blocks"
    others = sum(sample.index_rows * (sample.blocks - 1) for sample in good)
    # How likely a key of one block is in another one, and so in what share of all blocks a key is on average.
    again = sum(sample.again for sample in good) / max(1, others)
    share = (1 + again * (whole.blocks - 1)) / whole.blocks
    keys = max(per_block / share, *(sample.keys for sample in good), 1)
    return (
        f"on average a key is in {share:.0%} of the blocks and selects {100 / keys:.2g} % of the rows: "
        f"an equality skips about {1 - share:.0%} of the blocks"
    )


def _scale(whole: BaseTable, samples: Sequence[Sample]) -> float:
    """How much more there is of the key columns in the table than in the samples."""
    return whole.size / max(1, sum(sample.size for sample in samples))
