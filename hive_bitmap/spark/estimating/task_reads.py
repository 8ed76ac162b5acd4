"""What an estimate reads itself: where Spark runs in this process, and a job of Spark would take longer to begin.

Elsewhere tasks read, for the files may be within their reach alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.spark.estimating.sampling import FooterItem, Longs, Sample, SampleItem, measure, read_footer
from hive_bitmap.spark.metastore import session_stores
from hive_bitmap.spark.tasks.distribution import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOOTERS = 1_000  # a footer takes some 0.2 ms, a job 0.2 s and a part of these for each core
ROWS = 1_000_000  # to index them takes some 0.3 s
KEY_BYTES = 16 << 20  # compressed, as the footers tell


def footers(spark: SparkSession, items: Sequence[FooterItem]) -> list[tuple[Longs, Longs]]:
    """Read the footers of files (`sampling.read_footer`)."""
    if len(items) <= FOOTERS and _runs_here(spark):
        return map_parallel(read_footer, items)
    return in_tasks(spark, items, read_footer)


def samples(spark: SparkSession, items: Sequence[SampleItem], rows: int) -> list[Sample]:
    """Measure samples that have so many rows together (`sampling.measure`), one after the other if it is done here.

    The seconds of a sample would be wrong if others had the processor meanwhile. A sample of a COMPACT index is made as
    large as a shard, so it is measured in a task.
    """
    few = rows <= ROWS and sum(item.size for item in items) <= KEY_BYTES
    if few and all(item.definition.has_bitmaps for item in items) and _runs_here(spark):
        return [measure(item) for item in items]
    return in_tasks(spark, items, measure)


def _runs_here(spark: SparkSession) -> bool:
    """Whether tasks run on this machine; if so, this process reads as they do from here on."""
    session_stores.use(spark)
    return spark.conf.get("spark.master", "").startswith("local")  # type: ignore[union-attr]
