"""Read in tasks what an estimate needs.

A file for which a library ends the process of its task has no blocks, since a build leaves it unindexed.
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
    results = in_surviving_tasks(spark, items, read_footer)
    return [
        no_blocks(item) if isinstance(result, Died) else result for item, result in zip(items, results, strict=True)
    ]


def samples(spark: SparkSession, items: Sequence[SampleItem]) -> list[Sample]:
    """Measure samples (`sampling.measure`)."""
    results = in_surviving_tasks(spark, items, measure)
    return [not_indexed(result.reason) if isinstance(result, Died) else result for result in results]
