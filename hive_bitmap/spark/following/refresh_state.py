"""What is known of the refreshes of a table, as values: what is wanted, and when it may begin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from hive_bitmap.core.table_info import full_name, in_spark

FIRST_PAUSE = 60.0  # seconds from a refresh that failed to the next one, and twice as many after each further one
LONGEST_PAUSE = 3600.0
MOST_UNSETTLED = 3  # refreshes in sequence: files that change all the time are left to the next write or query
MOST_PARTITIONS = 1000  # of which a refresh is told; where there are more, it looks at all

Partition = tuple[tuple[str, str | None], ...]  # values of some or all partition columns, by column


def few(partitions: frozenset[Partition]) -> frozenset[Partition] | None:
    """Return these partitions if they are not too many to be told one by one; else None, which stands for all."""
    return partitions if len(partitions) <= MOST_PARTITIONS else None


class Outcome(Enum):
    """What a refresh has come to."""

    CHANGED = "files were indexed, or partitions were dropped"
    IN_VAIN = "there was nothing to do"
    TOO_EARLY = "another process was building; it is tried again after the interval"
    UNSETTLED = "there was something to do in each pass; it is tried again after the interval, a few times"


@dataclass(frozen=True, order=True)
class Key:
    """The indexes of a table that follow it with the same `interval` in seconds: they are refreshed in one pass."""

    database: str
    table: str
    interval: float
    catalog: str = ""  # "" is the session's own

    @property
    def spark_name(self) -> str:
        """The table's name in Spark's SQL."""
        return in_spark(self.database, self.table, catalog=self.catalog)

    def __str__(self) -> str:
        return full_name(self.catalog, self.database, self.table)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A refresh that is wanted, of these partitions of a table, or of all (None).

    `session` is the one to run it with, that of the last who wanted it. `by_query` says that no write was seen, only
    files that are not indexed: if a refresh changes nothing, as where they cannot be indexed, the next one that only
    queries want waits twice as long.
    """

    key: Key
    partitions: frozenset[Partition] | None
    session: Any
    by_query: bool = False

    def joined(self, later: Wanted) -> Wanted:
        """Return one refresh for this and a later one."""
        both: frozenset[Partition] | None = None
        if self.partitions is not None and later.partitions is not None:
            both = few(self.partitions | later.partitions)
        return replace(later, partitions=both, by_query=self.by_query and later.by_query)


@dataclass(frozen=True, kw_only=True)
class State:
    """What is known of one key: the refresh that is wanted, and how the last ones ended."""

    wanted: Wanted | None = None
    ended: float = float("-inf")
    failures: int = 0  # in sequence
    in_vain: int = 0  # in sequence, of those that only queries wanted
    unsettled: int = 0  # in sequence

    @property
    def due(self) -> float:
        """When the refresh that is wanted may begin; infinite if there is none."""
        if self.wanted is None:
            return float("inf")
        return self._rested(self.wanted.key, self.wanted.by_query)

    def is_idle(self, key: Key, now: float) -> bool:
        """Whether nothing is wanted, and whatever will be may begin at once."""
        return self.wanted is None and self._rested(key, by_query=True) <= now

    def _rested(self, key: Key, by_query: bool) -> float:
        if self.failures:
            return self.ended + max(key.interval, pause(FIRST_PAUSE, self.failures))
        if self.in_vain and by_query:
            return self.ended + max(key.interval, pause(2 * key.interval, self.in_vain))
        return self.ended + key.interval

    def wanting(self, wanted: Wanted) -> State:
        """Return the state when a refresh is wanted, beside the one that waits, if there is one."""
        return replace(self, wanted=wanted if self.wanted is None else self.wanted.joined(wanted))

    def after(self, wanted: Wanted, outcome: Outcome | None, ended: float) -> State:
        """Return the state after a refresh; `outcome` is None if it failed."""
        unsettled = self.unsettled + 1 if outcome is Outcome.UNSETTLED else 0
        again = outcome in (None, Outcome.TOO_EARLY) or 0 < unsettled < MOST_UNSETTLED
        in_vain = self.in_vain + 1 if outcome is Outcome.IN_VAIN and wanted.by_query else 0
        failures = self.failures + 1 if outcome is None else 0
        before = replace(self, wanted=wanted) if again else replace(self, wanted=None)
        joined = before if self.wanted is None else before.wanting(self.wanted)
        return replace(joined, ended=ended, failures=failures, in_vain=in_vain, unsettled=unsettled)


def pause(first: float, times: int) -> float:
    """Return the seconds of the n-th pause: each is twice as long as the one before, up to LONGEST_PAUSE."""
    return min(first * 2.0 ** min(times - 1, 30), LONGEST_PAUSE)
