"""Queue the refreshes of one process.

Each refresh key (a table and an interval) has at most one pending refresh. A thread runs due refreshes, one after the
other, and ends when no refresh is requested for a while. The thread is a daemon, so it does not keep the process alive.

The state of a key's refreshes is a value (`State`): the pending request, and when it may begin.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.table_info import Table, full_name, in_spark
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_PAUSE = 60.0  # seconds from a failed refresh to the next one; doubled after each further failure
LONGEST_PAUSE = 3600.0
MOST_UNSETTLED = 3  # consecutive unsettled refreshes; after these, a write or query has to request the next one
MOST_PARTITIONS = 1000  # most partitions of a request; with more, a refresh checks all partitions

Partition = tuple[tuple[str, str | None], ...]  # values of some or all partition columns, by column
log = logging.getLogger(__name__)
MOST_TABLES = 10_000
IDLE_SECONDS = 60.0  # after this time without requests, the thread ends


def few(partitions: frozenset[Partition]) -> frozenset[Partition] | None:
    """Return these partitions, or None (all) for more than MOST_PARTITIONS."""
    return partitions if len(partitions) <= MOST_PARTITIONS else None


class Outcome(Enum):
    """How a refresh ended without an error."""

    CHANGED = "files were indexed, or partitions were dropped"
    IN_VAIN = "there was nothing to do"
    TOO_EARLY = "another process was building; the refresh is tried again after the interval"
    UNSETTLED = "each pass found something to do; the refresh is tried again after the interval, a few times"


@dataclass(frozen=True, order=True)
class RefreshKey:
    """The name of a table and an interval, for the indexes to refresh together.

    The key stands for the indexes that follow this table with this `interval` (seconds).
    """

    database: str
    table: str
    interval: float
    catalog: str = ""  # "" is the session catalog

    @property
    def spark_name(self) -> str:
        """The table's name in Spark SQL."""
        return in_spark(self.database, self.table, catalog=self.catalog)

    def __str__(self) -> str:
        return full_name(self.catalog, self.database, self.table)


@dataclass(frozen=True, kw_only=True)
class RefreshRequest:
    """A request to refresh some `partitions` of a table; None stands for all.

    `session` is the session of the last request, which runs the refresh. `by_query` says that only queries that found
    unindexed files have requested the refresh, and no write. If such a refresh changes nothing, for example because
    the files cannot be indexed, the next one waits twice as long.
    """

    key: RefreshKey
    partitions: frozenset[Partition] | None
    session: Any
    by_query: bool = False

    def joined(self, later: RefreshRequest) -> RefreshRequest:
        """Join this request with a later request."""
        both: frozenset[Partition] | None = None
        if self.partitions is not None and later.partitions is not None:
            both = few(self.partitions | later.partitions)
        return replace(later, partitions=both, by_query=self.by_query and later.by_query)


@dataclass(frozen=True, kw_only=True)
class State:
    """The pending request of a refresh key, and how its last refreshes ended.

    `request` is None if no refresh is pending. `ended` is when the last refresh ended, by the clock of the queue;
    -infinity before the first one. The other fields count consecutive refreshes up to the last one: refreshes that
    failed (`failures`), refreshes that only queries requested and that changed nothing (`no_ops`), and refreshes with
    the outcome UNSETTLED (`unsettled`).
    """

    request: RefreshRequest | None = None
    ended: float = float("-inf")
    failures: int = 0
    no_ops: int = 0
    unsettled: int = 0

    @property
    def due(self) -> float:
        """The time when the requested refresh may begin; infinite if no refresh is requested."""
        if self.request is None:
            return float("inf")
        return self._rested(self.request.key, self.request.by_query)

    def is_idle(self, key: RefreshKey, now: float) -> bool:
        """Whether nothing is requested, and a new request could begin at the time `now`."""
        return self.request is None and self._rested(key, by_query=True) <= now

    def _rested(self, key: RefreshKey, by_query: bool) -> float:
        if self.failures:
            return self.ended + max(key.interval, pause(FIRST_PAUSE, self.failures))
        if self.no_ops and by_query:
            return self.ended + max(key.interval, pause(2 * key.interval, self.no_ops))
        return self.ended + key.interval

    def wanting(self, request: RefreshRequest) -> State:
        """Return the state after a further request, which joins the pending request."""
        return replace(self, request=request if self.request is None else self.request.joined(request))

    def after(self, request: RefreshRequest, outcome: Outcome | None, ended: float) -> State:
        """Return the state after a refresh that ended at the time `ended`.

        `request` is the request that the refresh has served. It is pending again if the refresh has to be repeated.
        `outcome` is None if the refresh failed.
        """
        unsettled = self.unsettled + 1 if outcome is Outcome.UNSETTLED else 0
        again = outcome in (None, Outcome.TOO_EARLY) or 0 < unsettled < MOST_UNSETTLED
        no_ops = self.no_ops + 1 if outcome is Outcome.IN_VAIN and request.by_query else 0
        failures = self.failures + 1 if outcome is None else 0
        before = replace(self, request=request) if again else replace(self, request=None)
        joined = before if self.request is None else before.wanting(self.request)
        return replace(joined, ended=ended, failures=failures, no_ops=no_ops, unsettled=unsettled)


def pause(first: float, times: int) -> float:
    """Return the length of a pause in seconds.

    The pause is the `times`-th in a row, counted from 1. The first pause takes `first` seconds, and each further pause
    twice as long as the pause before, up to LONGEST_PAUSE.
    """
    return min(first * 2.0 ** min(times - 1, 30), LONGEST_PAUSE)


class RefreshQueue:
    """A queue that calls `refresh` for each request.

    `refresh` is called at most once in the interval of a key. If it fails, the error is logged once, and the refresh
    is repeated a minute later, then after twice as long each time, up to an hour. `clock` returns seconds.
    """

    def __init__(
        self, refresh: Callable[[RefreshRequest], Outcome], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._refresh, self._clock = refresh, clock
        self._states: dict[RefreshKey, State] = {}
        self._changed = Condition()
        self._running: RefreshKey | None = None
        self._thread: Thread | None = None

    def want(self, request: RefreshRequest) -> bool:
        """Add a request, or join it to a pending request.

        A pending request with the same key is joined with the new request. Return False, and ignore the request, if
        there are too many tables.
        """
        with self._changed:
            if request.key not in self._states and len(self._states) >= MOST_TABLES:
                self._forget_idle()
                if len(self._states) >= MOST_TABLES:
                    return False
            self._states[request.key] = self._states.get(request.key, State()).wanting(request)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="hive_bitmap-refresh", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def is_wanted(self, key: RefreshKey) -> bool:
        """Return whether a refresh is pending or running."""
        with self._changed:
            return self._is_wanted(key)

    def waiting(self) -> list[RefreshRequest]:
        """Return the pending refreshes."""
        with self._changed:
            return [state.request for state in self._states.values() if state.request is not None]

    def forget(self, key: RefreshKey) -> None:
        """Drop a pending refresh, because its indexes are gone."""
        with self._changed:
            self._states.pop(key, None)
            self._changed.notify_all()

    def longest_interval(self) -> float:
        """Return the longest interval of pending and running refreshes.

        The interval is in seconds; 0 without a refresh.
        """
        with self._changed:
            return max((key.interval for key in self._states if self._is_wanted(key)), default=0.0)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until nothing is pending or running.

        Return whether the wait ended in time. Failed refreshes that are repeated later are not waited for.
        """
        end = self._clock() + seconds
        with self._changed:
            while self._is_busy():
                remaining = end - self._clock()
                if remaining <= 0:
                    return False
                self._changed.wait(min(remaining, IDLE_SECONDS))
            return True

    def _forget_idle(self) -> None:
        """Forget tables that have no request, and whose next refresh could begin at once."""
        now = self._clock()
        idle = [key for key, state in self._states.items() if state.is_idle(key, now) and key != self._running]
        for key in idle:
            del self._states[key]

    def _is_wanted(self, key: RefreshKey) -> bool:
        return self._running == key or self._states.get(key, State()).request is not None

    def _is_busy(self) -> bool:
        waits = any(state.request is not None and not state.failures for state in self._states.values())
        return waits or self._running is not None

    def _run(self) -> None:
        while (request := self._next()) is not None:
            outcome, error = None, ""
            try:
                outcome = self._refresh(request)
            except Exception as e:
                error = str(e) or type(e).__name__
                log.debug("a refresh of %s failed", request.key, exc_info=True)
            self._ended(request, outcome, error)

    def _next(self) -> RefreshRequest | None:
        """Wait until a refresh is due, and take it from the queue.

        Return None if no refresh is requested for IDLE_SECONDS; the thread then ends.
        """
        with self._changed:
            while True:
                state = min(self._states.values(), key=lambda state: state.due, default=State())
                remaining = state.due - self._clock()
                if state.request is not None and remaining <= 0:
                    key = state.request.key
                    self._states[key], self._running = replace(state, request=None), key
                    return state.request
                notified = self._changed.wait(min(remaining, IDLE_SECONDS))
                if state.request is None and not notified:
                    self._thread = None
                    return None

    def _ended(self, request: RefreshRequest, outcome: Outcome | None, error: str) -> None:
        with self._changed:
            before = self._states.get(request.key, State())
            after = before.after(request, outcome, self._clock())
            self._states[request.key], self._running = after, None
            self._changed.notify_all()
        if error and not before.failures:
            log.warning(
                "refreshing the indexes of %s failed; it is tried again after %.0f seconds, then less often: %s",
                request.key,
                FIRST_PAUSE,
                error,
            )


def following(indexes: Iterable[Index]) -> list[Index]:
    """Return the trusted indexes that follow their table."""
    return [index for index in indexes if index.trusted and index.definition.auto_refresh]


def is_followed(spark: SparkSession, key: RefreshKey) -> bool:
    """Return whether any index still follows the key's table at the key's interval."""
    return bool(followers_of(spark, key)[1])


def followers_of(spark: SparkSession, key: RefreshKey) -> tuple[Table | None, list[Index]]:
    """Return the table of a refresh key, and the indexes that the key stands for.

    The indexes follow the table at the key's interval. The table is None if it no longer exists.
    """
    try:
        base, indexes = catalog.table_and_indexes(spark, key.spark_name)
    except NotFound:
        return None, []
    return base, [index for index in following(indexes) if index.definition.refresh_seconds == key.interval]
