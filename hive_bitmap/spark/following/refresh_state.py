"""The state of a table's refreshes, as values.

It says what is requested, and when it may begin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from hive_bitmap.core.table_info import full_name, in_spark

FIRST_PAUSE = 60.0  # seconds from a failed refresh to the next one; doubled after each further failure
LONGEST_PAUSE = 3600.0
MOST_UNSETTLED = 3  # consecutive refreshes; files that change all the time are left to the next write or query
MOST_PARTITIONS = 1000  # in a request; with more, a refresh checks all partitions

Partition = tuple[tuple[str, str | None], ...]  # values of some or all partition columns, by column


def few(partitions: frozenset[Partition]) -> frozenset[Partition] | None:
    """Return these partitions if they are few.

    Return None, which means all, for too many partitions.
    """
    return partitions if len(partitions) <= MOST_PARTITIONS else None


class Outcome(Enum):
    """The result of a refresh."""

    CHANGED = "files were indexed, or partitions were dropped"
    IN_VAIN = "there was nothing to do"
    TOO_EARLY = "another process was building; it is tried again after the interval"
    UNSETTLED = "there was something to do in each pass; it is tried again after the interval, a few times"


@dataclass(frozen=True, order=True)
class Key:
    """The indexes that follow a table with the same `interval` in seconds.

    They are refreshed in one pass.
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
    """A requested refresh of some partitions of a table, or of all (None).

    `session` runs it; it is the session of the last request. `by_query` says that no write was seen, only unindexed
    files: if a refresh changes nothing, for example because they cannot be indexed, the next one that only queries
    request waits twice as long.
    """

    key: Key
    partitions: frozenset[Partition] | None
    session: Any
    by_query: bool = False

    def joined(self, later: RefreshRequest) -> RefreshRequest:
        """Return one refresh for this and a later request."""
        both: frozenset[Partition] | None = None
        if self.partitions is not None and later.partitions is not None:
            both = few(self.partitions | later.partitions)
        return replace(later, partitions=both, by_query=self.by_query and later.by_query)


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of one key: the pending request, and how the last refreshes ended."""

    request: RefreshRequest | None = None
    ended: float = float("-inf")
    failures: int = 0  # consecutive ones
    no_ops: int = 0  # consecutive ones, of those that only queries requested
    unsettled: int = 0  # consecutive ones

    @property
    def due(self) -> float:
        """The time when the requested refresh may begin; infinite if there is none."""
        if self.request is None:
            return float("inf")
        return self._rested(self.request.key, self.request.by_query)

    def is_idle(self, key: Key, now: float) -> bool:
        """Whether nothing is requested, and any new request may begin at once."""
        return self.request is None and self._rested(key, by_query=True) <= now

    def _rested(self, key: Key, by_query: bool) -> float:
        if self.failures:
            return self.ended + max(key.interval, pause(FIRST_PAUSE, self.failures))
        if self.no_ops and by_query:
            return self.ended + max(key.interval, pause(2 * key.interval, self.no_ops))
        return self.ended + key.interval

    def wanting(self, request: RefreshRequest) -> State:
        """Return the state after a further request, which joins the pending one."""
        return replace(self, request=request if self.request is None else self.request.joined(request))

    def after(self, request: RefreshRequest, outcome: Outcome | None, ended: float) -> State:
        """Return the state after a refresh; `outcome` is None if it failed."""
        unsettled = self.unsettled + 1 if outcome is Outcome.UNSETTLED else 0
        again = outcome in (None, Outcome.TOO_EARLY) or 0 < unsettled < MOST_UNSETTLED
        no_ops = self.no_ops + 1 if outcome is Outcome.IN_VAIN and request.by_query else 0
        failures = self.failures + 1 if outcome is None else 0
        before = replace(self, request=request) if again else replace(self, request=None)
        joined = before if self.request is None else before.wanting(self.request)
        return replace(joined, ended=ended, failures=failures, no_ops=no_ops, unsettled=unsettled)


def pause(first: float, times: int) -> float:
    """Return the seconds of the n-th pause: twice the previous one, up to LONGEST_PAUSE."""
    return min(first * 2.0 ** min(times - 1, 30), LONGEST_PAUSE)
