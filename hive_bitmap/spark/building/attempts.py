"""Index the base files of a build, in two attempts if necessary.

Arrow's C++ code may crash the process that reads a damaged file. In a build this process is a Python worker of Spark.
If a worker crashes, each file is tried in a child process of a task. The second attempt leaves out the files that
crashed a child process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.formats import LAYOUTS
from hive_bitmap.core.index import deletion, generation_names
from hive_bitmap.core.indexing import segment_change
from hive_bitmap.core.indexing.group_indexing import ShardReport
from hive_bitmap.core.indexing.segment_change import Change
from hive_bitmap.core.listings.file_listing import format_of
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.building import build_job, staging
from hive_bitmap.spark.building.build_job import WorkerDied
from hive_bitmap.spark.building.build_scope import BuildPlan
from hive_bitmap.spark.building.file_groups import jobs
from hive_bitmap.spark.building.progress import BuildProgress
from hive_bitmap.spark.metastore import metastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
ProgressCallback = Callable[[BuildProgress], None]


def index_files(
    spark: SparkSession, planned: BuildPlan, progress: ProgressCallback | None, metastore_id: str, in_work: list[str]
) -> tuple[BuildPlan, list[ShardReport]]:
    """Create the new segments of a build, and index the files.

    Return the plan with these segments, and the reports of the tasks. `progress` is called while files are indexed;
    None for no calls. The folders of new segments are added to `in_work`. The segments of a failed attempt are deleted
    (`delete_begun`); `metastore_id` is the id of this metastore. Raise BuildFailed, OSError and StoreError.
    """

    def attempt(plan: BuildPlan, fatal: Mapping[str, str]) -> list[ShardReport]:
        in_work.extend(change.folder for change in plan.changes)
        try:
            return _attempt(spark, plan, fatal, progress)
        except BaseException:
            delete_begun(plan, metastore_id)
            raise

    try:
        return planned, attempt(planned, {})
    except WorkerDied as died:
        if format_of(planned.base) in LAYOUTS:  # no C++ code reads these formats
            raise
        log.warning("a Python worker ended, so each file is tried in a separate process: %s", died)
    fatal = build_job.fatal_files(spark, jobs(spark, planned.base, planned.changes))
    again = replace(planned, changes=tuple(map(_in_new_folder, planned.changes)))
    return again, attempt(again, fatal)


def delete_begun(planned: BuildPlan, metastore_id: str) -> None:
    """Delete the segments that a build has begun.

    `metastore_id` is the id of this metastore. If the marker of an index's root names another metastore, the segments
    of this index stay. Files that cannot be deleted are left to `clean`.
    """
    try:
        for number, scope in enumerate(planned.scopes):
            folders = [change.folder for change in planned.changes_of(number)]
            deletion.delete(folders, scope.definition, metastore_id)
    except (OSError, StoreError) as e:
        log.warning("files of the failed build could not be deleted: run clean to delete them: %s", e)


def _attempt(
    spark: SparkSession, planned: BuildPlan, fatal: Mapping[str, str], progress: ProgressCallback | None
) -> list[ShardReport]:
    base, needed = planned.base, planned.changes
    segment_change.start(needed)
    with staging.for_build(spark, base, needed, fatal) as staged, ThreadPoolExecutor(1) as pool:
        # Spark caches file listings: a full scan in this session must not miss files that the index covers.
        refreshed = pool.submit(metastore.refresh_files, spark, base)
        reports = build_job.run(spark, jobs(spark, base, needed, staged, fatal), progress)
        refreshed.result()
    return reports


def _in_new_folder(change: Change) -> Change:
    """Return a change whose segment gets a new folder.

    The second attempt needs new folders, because tasks of the first attempt may still write into the old folders.
    """
    return replace(change, folder=f"{parent(change.folder)}/{generation_names.new_name()}")
