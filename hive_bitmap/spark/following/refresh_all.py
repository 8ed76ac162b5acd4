"""Bring the indexes of several tables up to date.

A scheduler does this for tables that others write.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.building.build import BuildReport, refresh
from hive_bitmap.spark.building.progress import BuildProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class TableRefresh:
    """The refresh of one table: a report for each index, or the error.

    `seconds` is its duration.
    """

    table: str
    seconds: float
    reports: tuple[BuildReport, ...] = ()
    error: str = ""

    @property
    def files(self) -> int:
        """The number of base files that were read: each once, for all indexes together."""
        return max((report.files_read for report in self.reports), default=0)

    @property
    def bytes(self) -> int:
        """The bytes of base files that were read."""
        return max((report.bytes_read for report in self.reports), default=0)


def refresh_table(
    spark: SparkSession, table: str, progress: Callable[[BuildProgress], None] | None = None
) -> TableRefresh:
    """Refresh all indexes of a table.

    A failure is part of the result, so that the next table has its turn.
    """
    from pyspark.errors import PySparkException

    started = time.monotonic()
    reports, error = [], ""
    try:
        reports = refresh(spark, table, progress=progress)
    except (HiveBitmapError, PySparkException, OSError) as e:
        error = str(e)
    return TableRefresh(table=table, seconds=time.monotonic() - started, reports=tuple(reports), error=error)
