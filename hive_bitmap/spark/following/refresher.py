"""What one process does so that indexes follow their tables: it takes what it sees of writes, and queues refreshes.

The JVM tells of the writes that it has committed (`written`). The planner tells of files that no index knows (`seen`):
those were written by Hive, by other programs, or by applications that ended before their refresh.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import TTLCache

from hive_bitmap.core.explaining.measures import counted, size
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile
from hive_bitmap.core.stores import WITH_DELETES, FileStatus
from hive_bitmap.core.table_info import Table, in_spark
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.following.places import Places
from hive_bitmap.spark.following.refresh_queue import RefreshQueue
from hive_bitmap.spark.following.refresh_state import Key, Outcome, Partition, Wanted, few
from hive_bitmap.spark.following.table_refresh import following, is_followed, refresh_followers
from hive_bitmap.spark.metastore import jvm_settings
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POOL = "hive_bitmap"  # the scheduler's pool of the refreshes' jobs
MOST_DATABASES = 1000
LOOK_SECONDS = 30.0  # for which tables that are made meanwhile may be overlooked in writes by path


@dataclass(frozen=True)
class Unindexed:
    """Base files that a query reads whole: how many, their bytes, and the seconds since the oldest was written.

    The seconds are None for files of Iceberg, which does not say when they were written.
    """

    files: int
    bytes: int
    lag: float | None


class Refresher:
    """The refreshes of one JVM's sessions. `jvm` returns the `Bridge` of a session."""

    def __init__(self, jvm: Callable[[SparkSession], Any]) -> None:
        self._jvm = jvm
        self._places = Places()
        self._lock = Lock()  # of the databases that were looked at
        self._looked_at: TTLCache[str, bool] = TTLCache(MOST_DATABASES, LOOK_SECONDS)  # databases
        self.queue = RefreshQueue(self._refresh)

    def written(self, spark: SparkSession, text: str) -> str:
        """Queue refreshes for a write, given as `Write.java` tells it. Return the table's indexed columns, as JSON.

        That is null if they are not known. A write by path belongs to a table that is followed, if one in the session's
        database, or one that this process has seen, lies in that folder.
        """
        fields = json.loads(text)
        if "path" in fields:
            return self._written_by_path(spark, fields["path"])
        partitions = fields["partitions"]
        found = None if partitions is None else frozenset(map(_partition, partitions))
        name = in_spark(fields["database"], fields["table"], catalog=fields["catalog"])
        return self._written(spark, name, found)

    def seen(self, spark: SparkSession, base: Table, indexes: Iterable[Index], results: LookupResults) -> str:
        """Take the files that a query found unindexed; return what to tell of them, "" if nothing.

        Those of indexes that follow the table are queued once they are older than the interval; a write that was just
        seen has a refresh of its own.
        """
        followers = following(indexes)
        whole_files = [file for file in results.whole_files if not _is_known(file)]
        if not followers or not whole_files or (base.lake is not None and base.lake.past):
            return ""
        self._places.add(base)
        found = _unindexed([file.status for file in whole_files])
        if found.lag is not None:
            self._jvm(spark).lag(found.lag)
        names = [column.name for column in base.partition_columns]
        values = {results.partitions[file.partition].values for file in whole_files}
        partitions = few(frozenset(_partition(dict(zip(names, one, strict=True))) for one in values))
        wanted = partial(Wanted, partitions=partitions, session=spark, by_query=True)
        queued = [self._is_queued(wanted(key=key), found.lag) for key in _keys(base, followers)]
        told = f"{counted(found.files, 'file')} ({size(found.bytes)}) not indexed yet"
        return f"{told}; a refresh is queued" if any(queued) else told

    def wait(self, seconds: float) -> bool:
        """Wait until all refreshes have ended but those that failed, `seconds` at most. Return whether they have."""
        for waiting in self.queue.waiting():
            if not is_followed(waiting.session, waiting.key):
                self.queue.forget(waiting.key)
        return self.queue.wait(seconds)

    def _is_queued(self, wanted: Wanted, lag: float | None) -> bool:
        """Whether a refresh waits or runs; one is queued where files have waited for longer than the interval."""
        late = lag is None or lag >= wanted.key.interval
        return self.queue.is_wanted(wanted.key) or (late and self.queue.want(wanted))

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
        """Learn where the tables of the session's database lie that are followed, unless that was done a while ago."""
        database = spark.catalog.currentDatabase()
        with self._lock:
            if database in self._looked_at:
                return
            self._looked_at[database] = True
        followers = (index.definition for index in following(catalog.indexes_of_database(spark, database)))
        for base in catalog.described(spark, {(one.database, one.table) for one in followers}):
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
            self.queue.want(Wanted(key=key, partitions=partitions, session=spark))
        return json.dumps(sorted({name for index in indexes for name in index.definition.column_names}))

    def _refresh(self, wanted: Wanted) -> Outcome:
        spark: SparkSession = wanted.session
        if _is_stopped(spark):
            return Outcome.IN_VAIN
        try:
            outcome = refresh_followers(self._quiet(spark), wanted.key, wanted.partitions)
        except Exception:
            if _is_stopped(spark):
                return Outcome.IN_VAIN
            self._jvm(spark).refreshed(True)
            raise
        self._jvm(spark).refreshed(False)
        self._jvm(spark).lag(0.0)
        return outcome

    def _quiet(self, spark: SparkSession) -> SparkSession:
        """Return a session of its own for a refresh, whose statements are not followed and whose jobs are in POOL.

        A refresh is the application's work, done with its rights. So whom it believes, and what it runs, the session
        that wrote has no say in.
        """
        from pyspark.sql import SparkSession

        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        quiet = SparkSession(spark.sparkContext, self._jvm(spark).quietClone(spark._jsparkSession))
        jvm_settings.of_application(quiet)
        return quiet


def _partition(values: Mapping[str, str | None]) -> Partition:
    return tuple(sorted(values.items()))


def _keys(base: Table, followers: Iterable[Index]) -> list[Key]:
    intervals = {index.definition.refresh_seconds for index in followers}
    return [Key(base.database, base.name, interval, base.catalog) for interval in sorted(intervals)]


def _is_known(file: WholeFile) -> bool:
    """Whether an index has a file, of which rows are deleted, so that Spark counts it."""
    return file.status.etag == WITH_DELETES and file.freshness is Freshness.STALE


def _unindexed(files: Sequence[FileStatus]) -> Unindexed:
    times = [file.mtime_ms / 1000 for file in files if file.mtime_ms]
    lag = max(time.time() - min(times), 0.0) if times else None
    return Unindexed(len(files), sum(file.size for file in files), lag)


def _is_stopped(spark: SparkSession) -> bool:
    context = spark.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())
