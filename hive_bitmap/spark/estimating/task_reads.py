"""What tasks read for an estimate.

A file at which a library ends their process has no blocks, as a build leaves it unindexed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hive_bitmap.spark.estimating.sampling import (
    FooterItem,
    Longs,
    Sample,
    SampleItem,
    measure,
    no_blocks,
    not_indexed,
    read_footer,
)
from hive_bitmap.spark.tasks.children import Died
from hive_bitmap.spark.tasks.distribution import in_surviving_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def footers(spark: SparkSession, items: Sequence[FooterItem]) -> list[tuple[Longs, Longs]]:
    """Read the footers of files (`sampling.read_footer`)."""
    found = in_surviving_tasks(spark, items, read_footer)
    return [no_blocks(item) if isinstance(one, Died) else one for item, one in zip(items, found, strict=True)]


def samples(spark: SparkSession, items: Sequence[SampleItem]) -> list[Sample]:
    """Measure samples (`sampling.measure`)."""
    found = in_surviving_tasks(spark, items, measure)
    return [not_indexed(one.reason) if isinstance(one, Died) else one for one in found]
