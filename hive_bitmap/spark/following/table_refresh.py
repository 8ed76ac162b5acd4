"""Refresh the indexes of a table when a scheduler or the refresh queue requests it.

A scheduler calls `refresh_table`: all indexes of the table are refreshed, and an error is returned. The queue calls
`refresh_followers`: only indexes that follow the table are refreshed, in up to MOST_PASSES passes, and errors are
recorded and raised. `refresh_followers` declines (TOO_EARLY) while another build of one of the indexes runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core.index import generation, generation_names, refresh_record
from hive_bitmap.core.index.refresh_record import RefreshRecord
from hive_bitmap.errors import HiveBitmapError, NotFound, StoreError
from hive_bitmap.spark.building.build import BuildReport, refresh
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.following.refresh_queue import Outcome, Partition, RefreshKey, followers_of, is_followed
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
MOST_PASSES = 3  # most passes of one refresh while other builds publish
YOUNG_SECONDS = 600.0  # a refresh does not wait for an older build, which may have died unnoticed


@dataclass(frozen=True, kw_only=True)
class TableRefresh:
    """The result of refreshing one table, which took `seconds`.

    `reports` has a report for each index; `reports` is empty after an error. `error` is "" if the refresh succeeded.
    """

    table: str
    seconds: float
    reports: tuple[BuildReport, ...] = ()
    error: str = ""

    @property
    def files(self) -> int:
        """The number of base files that were read, each once for all indexes."""
        return max((report.files_read for report in self.reports), default=0)

    @property
    def bytes(self) -> int:
        """The bytes of base files that were read."""
        return max((report.bytes_read for report in self.reports), default=0)


def refresh_table(
    spark: SparkSession, table: str, progress: Callable[[BuildProgress], None] | None = None
) -> TableRefresh:
    """Refresh all indexes of a table.

    `progress` is called during the refresh; None for no calls. An error is returned in the result, not raised.
    """
    from pyspark.errors import PySparkException

    started = time.monotonic()
    reports, error = [], ""
    try:
        reports = refresh(spark, table, progress=progress)
    except (HiveBitmapError, PySparkException, OSError) as e:
        error = str(e)
    return TableRefresh(table=table, seconds=time.monotonic() - started, reports=tuple(reports), error=error)


def refresh_followers(spark: SparkSession, key: RefreshKey, partitions: Iterable[Partition] | None) -> Outcome:
    """Refresh the indexes that follow one table with the same interval.

    `key` names the table and the interval. Only `partitions` are refreshed; None stands for all partitions. The result,
    or the error, is recorded in the root of each index. Indexes that no longer fit the table are left out, unless no
    index fits it. The outcome is TOO_EARLY if another build of one of the indexes is running. The outcome is IN_VAIN if
    there was nothing to do, for example because the table or its indexes no longer exist. Raises the errors of
    `refresh`, except NotFound.
    """
    base, followers = followers_of(spark, key)
    if base is None or not followers:
        return Outcome.IN_VAIN
    listed = None if partitions is None else [dict(partition) for partition in partitions]
    if listed == []:
        return Outcome.IN_VAIN
    if any(map(is_being_built, followers)):
        return Outcome.TOO_EARLY
    fitting, others = catalog.part_by_fit(spark, base, followers)
    if fitting:
        followers = fitting
        for index in others:
            _record(spark, [index], RefreshRecord.of_now(0.0, 0, index.problem))
    began = time.monotonic()
    try:
        reports = _until_published(spark, base.spark_name, followers, listed)
    except NotFound:  # the table was dropped or renamed in the meantime
        return Outcome.TOO_EARLY if is_followed(spark, key) else Outcome.IN_VAIN
    except Exception as e:
        _record(spark, followers, RefreshRecord.of_now(time.monotonic() - began, 0, str(e) or type(e).__name__))
        raise
    files = max((sum(report.files_read for report in same) for same in zip(*reports, strict=True)), default=0)
    _record(spark, followers, RefreshRecord.of_now(time.monotonic() - began, files))
    if any(map(has_changed, reports[-1])):
        return Outcome.UNSETTLED
    return Outcome.CHANGED if len(reports) > 1 else Outcome.IN_VAIN


def _until_published(
    spark: SparkSession, table: str, followers: Sequence[Index], partitions: Sequence[dict[str, str | None]] | None
) -> list[list[BuildReport]]:
    """Refresh until nothing is left to do, at most MOST_PASSES times.

    `followers` are the indexes to refresh. `partitions` has values of partition columns for each partition to refresh;
    None stands for all partitions. Return a list of reports for each pass.

    If two builds publish the same partition, the later build wins, with the files that it has seen. So passes are
    repeated until a pass changes nothing: the last build then sees the final state. If no partition has the given
    values, all partitions are checked, because the metastore may write values in another way than the program that
    wrote the files.
    """
    names = [index.definition.name for index in followers]
    passes = [refresh(spark, table, names, partitions=partitions or ())]
    if partitions and not any(map(has_looked, passes[0])):
        partitions, passes = None, [refresh(spark, table, names)]
    while any(map(has_changed, passes[-1])) and len(passes) < MOST_PASSES:
        passes.append(refresh(spark, table, names, partitions=partitions or ()))
    return passes


def has_looked(report: BuildReport) -> bool:
    """Return whether a build has found any partition or file to look at."""
    return bool(report.untouched or report.base_files or has_changed(report))


def has_changed(report: BuildReport) -> bool:
    """Return whether a build has changed the index, or has seen base files change."""
    return bool(report.files_read or report.partitions_dropped or report.changed)


def is_being_built(index: Index) -> bool:
    """Return whether a young build of an index is running.

    A build is young if it began at most YOUNG_SECONDS ago.
    """
    young = (
        folder
        for folder in generation.in_folders([index.definition.root])
        if time.time() - generation_names.build_time(folder) < YOUNG_SECONDS
    )
    return any(map(generation.is_being_written, young))


def _record(spark: SparkSession, indexes: Iterable[Index], record: RefreshRecord) -> None:
    """Record a refresh in the root of each index.

    A root that cannot be written is only logged.
    """
    mine = metastore_id(spark)
    for index in indexes:
        try:
            refresh_record.write(index.definition, record, mine)
        except (OSError, StoreError) as e:
            log.debug("the refresh of index %s is not recorded: %s", index.definition.name, e)
