"""Attempts to index the base files of a build: a second one, if a Python worker dies in the first.

Arrow's C++ may end its process at a damaged file. Each file is then tried in a child process of a task. The second
attempt leaves those unindexed that end the process again, and indexes the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.formats import LAYOUTS
from hive_bitmap.core.index import deletion, generation
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.building import build_job, partition_change, staging
from hive_bitmap.spark.building.build_job import WorkerDied
from hive_bitmap.spark.building.build_scope import BuildPlan
from hive_bitmap.spark.building.file_groups import jobs
from hive_bitmap.spark.building.group_indexing import ShardReport
from hive_bitmap.spark.building.partition_change import Change
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.file_listing import format_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
ProgressCallback = Callable[[BuildProgress], None]


def index_files(
    spark: SparkSession, planned: BuildPlan, progress: ProgressCallback | None, mine: str, in_work: list[str]
) -> tuple[BuildPlan, list[ShardReport]]:
    """Begin the new generations of a build, and index its base files into them.

    Return the plan with these generations, and the reports of the tasks. What a failed attempt began is deleted; `mine`
    is the id of the metastore. Add the generations to `in_work`. Raise BuildFailed, OSError and StoreError.
    """

    def attempt(plan: BuildPlan, fatal: Mapping[str, str]) -> list[ShardReport]:
        in_work.extend(change.folder for change in to_build(plan))
        try:
            return _attempt(spark, plan, fatal, progress)
        except BaseException:
            delete_begun(plan, mine)
            raise

    try:
        return planned, attempt(planned, {})
    except WorkerDied as died:
        if format_of(planned.base) in LAYOUTS:  # no file of these is read by C++
            raise
        log.warning("a Python worker ended, so each file is tried in a process of its own: %s", died)
    fatal = build_job.fatal_files(spark, jobs(spark, planned.base, to_build(planned)))
    again = replace(planned, changes=tuple(map(_in_new_folder, planned.changes)))
    return again, attempt(again, fatal)


def to_build(planned: BuildPlan) -> list[Change]:
    """Return the changes of a build for which something has to be done."""
    return [change for change in planned.changes if not change.refresh.up_to_date]


def delete_begun(planned: BuildPlan, mine: str) -> None:
    """Delete the generations that a build began; what fails is left to `clean`."""
    try:
        for number, scope in enumerate(planned.scopes):
            folders = [change.folder for change in to_build(planned) if change.index == number]
            deletion.delete(folders, scope.definition, mine)
    except (OSError, StoreError) as e:
        log.warning("files of the failed build could not be deleted and are left to clean: %s", e)


def _attempt(
    spark: SparkSession, planned: BuildPlan, fatal: Mapping[str, str], progress: ProgressCallback | None
) -> list[ShardReport]:
    base, needed = planned.base, to_build(planned)
    partition_change.start(needed)
    with staging.for_build(spark, base, needed) as staged, ThreadPoolExecutor(1) as pool:
        # Spark caches file listings: a full scan in this session must not miss files that the index covers.
        refreshed = pool.submit(metastore.refresh_files, spark, base)
        reports = build_job.run(spark, jobs(spark, base, needed, staged, fatal), progress)
        refreshed.result()
    return reports


def _in_new_folder(change: Change) -> Change:
    """Return a change whose generation is another one: tasks of a failed job may still write into the first."""
    if change.refresh.up_to_date:
        return change
    return replace(change, folder=f"{parent(change.folder)}/{generation.new_name()}")
