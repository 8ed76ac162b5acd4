"""Bring the indexes of several tables up to date, as a scheduler does with tables that others write."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core.table_info import in_spark
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.building.build import BuildReport, refresh
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class TableRefresh:
    """The refresh of one table, which took so many seconds: a report for each index, or why it failed."""

    table: str
    seconds: float
    reports: tuple[BuildReport, ...] = ()
    error: str = ""

    @property
    def files(self) -> int:
        """How many base files were read: each once, for all indexes together."""
        return max((report.files_read for report in self.reports), default=0)

    @property
    def bytes(self) -> int:
        """How many bytes of base files were read."""
        return max((report.bytes_read for report in self.reports), default=0)


def indexed_tables(spark: SparkSession, database: str | None, *, all_databases: bool = False) -> list[str]:
    """Return the names of the tables that have an index, in Spark's SQL, sorted.

    They are those of a database, of the session's own one (None), or of all. Tables that were dropped are among them as
    long as an index of theirs is left.
    """
    databases = [one.name for one in spark.catalog.listDatabases()] if all_databases else []
    wanted = databases or [database or spark.catalog.currentDatabase()]
    found = {
        (name, index.definition.table)
        for name in wanted
        for index in catalog.indexes_of_database(spark, name)
        if index.trusted
    }
    return [in_spark(*one) for one in sorted(found)]


def refresh_table(
    spark: SparkSession, table: str, progress: Callable[[BuildProgress], None] | None = None
) -> TableRefresh:
    """Refresh all indexes of a table. A failure is part of the result, so that the next table has its turn."""
    from pyspark.errors import PySparkException

    started = time.monotonic()
    reports, error = [], ""
    try:
        reports = refresh(spark, table, progress=progress)
    except (HiveBitmapError, PySparkException, OSError) as e:
        error = str(e)
    return TableRefresh(table=table, seconds=time.monotonic() - started, reports=tuple(reports), error=error)
