"""Collect the writes to followed tables, and queue refreshes of their indexes.

The JVM reports the writes that it has committed (`written`). The planner reports unindexed files (`seen`), which may
come from Hive, other programs, or applications that ended before their refresh. A write to a path is assigned to a
followed table by its folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from cachetools import LRUCache, TTLCache

from hive_bitmap.core.explaining.measures import counted, size
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile
from hive_bitmap.core.stores import WITH_DELETES, FileStatus
from hive_bitmap.core.table_info import NULL_PARTITION, Table, in_spark, raw_hadoop_path
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.following.refresh_queue import (
    Outcome,
    Partition,
    RefreshKey,
    RefreshQueue,
    RefreshRequest,
    few,
    following,
    is_followed,
)
from hive_bitmap.spark.metastore import jvm_settings
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST_TABLES = 10_000
POOL = "hive_bitmap"  # the scheduler pool of the refreshes' jobs
MOST_DATABASES = 1000
LOOK_SECONDS = 30.0  # seconds between searches for followed tables; writes by path to newer tables may be missed


@dataclass(frozen=True)
class TableFolder:
    """The table and the partition values of a folder.

    The folder of the table itself has no partition values.
    """

    database: str
    table: str
    values: Mapping[str, str | None]


class TableFolders:
    """A map from folders to tables; safe for many threads.

    Only the last MOST_TABLES tables are kept.
    """

    def __init__(self) -> None:
        self._tables: LRUCache[str, tuple[str, str]] = LRUCache(MOST_TABLES)  # by folder
        self._lock = Lock()  # a lookup also changes an LRUCache

    def add(self, base: Table) -> None:
        """Add the folder of a table, unless a log lists its files."""
        if base.lake is not None:
            return
        with self._lock:
            self._tables[base.location] = (base.database, base.name)

    def at(self, path: str) -> TableFolder | None:
        """Return the table of a folder or partition folder; None for an unknown folder."""
        folder = raw_hadoop_path(path).rstrip("/")
        values: dict[str, str | None] = {}
        with self._lock:
            while folder not in self._tables and "=" in folder.rpartition("/")[2]:
                folder, _, part = folder.rpartition("/")
                name, _, value = part.partition("=")
                values[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
            table = self._tables.get(folder)
        return None if table is None else TableFolder(*table, values)


@dataclass(frozen=True)
class Unindexed:
    """The number, bytes and age of unindexed base files, which a query reads whole.

    `lag` is the age of the oldest file in seconds. `lag` is None for an Iceberg table, because Iceberg does not record
    when files were written.
    """

    files: int
    bytes: int
    lag: float | None


class Refresher:
    """The refreshes of one JVM's sessions.

    `jvm` returns the `Bridge` of a session.
    """

    def __init__(self, jvm: Callable[[SparkSession], Any]) -> None:
        self._jvm = jvm
        self._places = TableFolders()
        self._lock = Lock()  # guards `_looked_at`
        self._looked_at: TTLCache[str, bool] = TTLCache(MOST_DATABASES, LOOK_SECONDS)  # databases
        self.queue = RefreshQueue(self._refresh)

    def written(self, spark: SparkSession, text: str) -> str:
        """Queue refreshes for a write, given as JSON of `Write.java`.

        Return the table's indexed columns as JSON, or `null` if they are unknown. A write to a path is assigned to the
        followed table with that folder. The table is found if it is in the session's database, or if this process has
        seen it before.
        """
        fields = json.loads(text)
        if "path" in fields:
            return self._written_by_path(spark, fields["path"])
        partitions = fields["partitions"]
        changed_partitions = None if partitions is None else frozenset(map(_partition, partitions))
        name = in_spark(fields["database"], fields["table"], catalog=fields["catalog"])
        return self._written(spark, name, changed_partitions)

    def seen(self, spark: SparkSession, base: Table, indexes: Iterable[Index], results: LookupResults) -> str:
        """Queue refreshes for the unindexed files of a query.

        Return a message about the files, or "" if there is nothing to say. An index that follows its table is refreshed
        if a file is older than the index's interval, or if the age of the files is unknown. A newer file usually comes
        from a write that has already requested a refresh.
        """
        followers = following(indexes)
        whole_files = [file for file in results.whole_files if not _has_only_deletes(file)]
        if not followers or not whole_files or (base.lake is not None and base.lake.past):
            return ""
        self._places.add(base)
        unindexed = _unindexed([file.status for file in whole_files])
        if unindexed.lag is not None:
            self._jvm(spark).lag(unindexed.lag)
        names = [column.name for column in base.partition_columns]
        values = {results.partitions[file.partition].values for file in whole_files}
        partitions = few(
            frozenset(_partition(dict(zip(names, partition_values, strict=True))) for partition_values in values)
        )
        request = partial(RefreshRequest, partitions=partitions, session=spark, by_query=True)
        queued = [self._is_queued(request(key=key), unindexed.lag) for key in _keys(base, followers)]
        message = f"{counted(unindexed.files, 'file')} ({size(unindexed.bytes)}) not indexed yet"
        return f"{message}; a refresh is queued" if any(queued) else message

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until all refreshes have ended.

        A failed refresh counts as ended. Return whether all refreshes have ended in time.
        """
        for waiting in self.queue.waiting():
            if not is_followed(waiting.session, waiting.key):
                self.queue.forget(waiting.key)
        return self.queue.wait(seconds)

    def _is_queued(self, request: RefreshRequest, lag: float | None) -> bool:
        """Queue a refresh, unless it is too early or already queued.

        `lag` is the age of the oldest unindexed file in seconds; None if it is unknown. A refresh is too early if `lag`
        is less than the refresh interval. Return whether a refresh is pending or running.
        """
        late = lag is None or lag >= request.key.interval
        return self.queue.is_wanted(request.key) or (late and self.queue.want(request))

    def _written_by_path(self, spark: SparkSession, path: str) -> str:
        place = self._places.at(path)
        if place is None:
            self._look_around(spark)
            place = self._places.at(path)
        if place is not None:
            partitions = frozenset([_partition(place.values)]) if place.values else None
            self._written(spark, in_spark(place.database, place.table), partitions)
        return "null"

    def _look_around(self, spark: SparkSession) -> None:
        """Record the folders of the followed tables in the session's database.

        Do nothing if this was done recently.
        """
        database = spark.catalog.currentDatabase()
        with self._lock:
            if database in self._looked_at:
                return
            self._looked_at[database] = True
        followers = (index.definition for index in following(catalog.indexes_of_database(spark, database)))
        for base in catalog.described(spark, {(follower.database, follower.table) for follower in followers}):
            self._places.add(base)

    def _written(self, spark: SparkSession, name: str, partitions: frozenset[Partition] | None) -> str:
        try:
            base, indexes = catalog.table_and_indexes(spark, name, catalog.INDEX_CACHE_SECONDS)
        except NotFound:
            return "null"
        followers = following(indexes)
        if followers:
            self._places.add(base)
        for key in _keys(base, followers):
            self.queue.want(RefreshRequest(key=key, partitions=partitions, session=spark))
        return json.dumps(sorted({column.name for index in indexes for column in index.definition.source_columns}))

    def _refresh(self, request: RefreshRequest) -> Outcome:
        from hive_bitmap.spark.following.table_refresh import refresh_followers  # builds are loaded when one begins

        spark: SparkSession = request.session
        if _is_stopped(spark):
            return Outcome.IN_VAIN
        try:
            outcome = refresh_followers(self._quiet(spark), request.key, request.partitions)
        except Exception:
            if _is_stopped(spark):
                return Outcome.IN_VAIN
            self._jvm(spark).refreshed(True)
            raise
        self._jvm(spark).refreshed(False)
        self._jvm(spark).lag(0.0)
        return outcome

    def _quiet(self, spark: SparkSession) -> SparkSession:
        """Return a separate session in which a refresh runs.

        `spark` is the session that wrote. Writes of the separate session are not followed, and its jobs run in POOL. A
        refresh has the rights of the application, so trust and Python settings come from the application, not from the
        session that wrote.
        """
        from pyspark.sql import SparkSession

        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        quiet = SparkSession(spark.sparkContext, self._jvm(spark).quietClone(spark._jsparkSession))
        jvm_settings.of_application(quiet)
        return quiet


def _partition(values: Mapping[str, str | None]) -> Partition:
    return tuple(sorted(values.items()))


def _keys(base: Table, followers: Iterable[Index]) -> list[RefreshKey]:
    intervals = {index.definition.refresh_seconds for index in followers}
    return [RefreshKey(base.database, base.name, interval, base.catalog) for interval in sorted(intervals)]


def _has_only_deletes(file: WholeFile) -> bool:
    """Return whether a file is read whole only for its deletes.

    Such a file is indexed, but a query reads it whole because some of its rows are deleted.
    """
    return file.status.etag == WITH_DELETES and file.freshness is Freshness.STALE


def _unindexed(files: Sequence[FileStatus]) -> Unindexed:
    times = [file.mtime_ms / 1000 for file in files if file.mtime_ms]
    lag = max(time.time() - min(times), 0.0) if times else None
    return Unindexed(len(files), sum(file.size for file in files), lag)


def _is_stopped(spark: SparkSession) -> bool:
    context = spark.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())
