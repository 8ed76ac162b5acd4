"""The queue of refreshes of one process: what is wanted of a table is one refresh, when the time for it has come.

A thread of its own runs them, one after the other. It is a daemon, so it keeps no process alive.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from threading import Condition, Thread
from typing import Any

log = logging.getLogger(__name__)
FIRST_PAUSE = 60.0  # seconds from a refresh that failed to the next one, and twice as many after each further one
LONGEST_PAUSE = 3600.0
MOST_PARTITIONS = 1000  # of which a refresh is told; where there are more, it looks at all
MOST_TABLES = 10_000

Partition = tuple[tuple[str, str | None], ...]  # values of some or all partition columns, by column


class Outcome(Enum):
    """What a refresh has come to."""

    CHANGED = "files were indexed, or partitions were dropped"
    IN_VAIN = "there was nothing to do"
    TOO_EARLY = "another process was building; it is tried again after the interval"


@dataclass(frozen=True, order=True)
class Key:
    """The indexes of a table that follow it with the same `interval` in seconds: they are refreshed in one pass."""

    database: str
    table: str
    interval: float

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


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
        few: frozenset[Partition] | None = None
        if self.partitions is not None and later.partitions is not None:
            both = self.partitions | later.partitions
            few = both if len(both) <= MOST_PARTITIONS else None
        return replace(later, partitions=few, by_query=self.by_query and later.by_query)


@dataclass(frozen=True, kw_only=True)
class _State:
    """What is known of one key: the refresh that is wanted, and how the last ones ended."""

    wanted: Wanted | None = None
    ended: float = float("-inf")
    failures: int = 0  # in sequence
    in_vain: int = 0  # in sequence, of those that only queries wanted

    @property
    def due(self) -> float:
        """When the refresh that is wanted may begin; infinite if there is none."""
        if self.wanted is None:
            return float("inf")
        pause = self.wanted.key.interval
        if self.failures:
            pause = max(pause, _pause(FIRST_PAUSE, self.failures))
        elif self.in_vain and self.wanted.by_query:
            pause = max(pause, _pause(2 * pause, self.in_vain))
        return self.ended + pause

    def wanting(self, wanted: Wanted) -> _State:
        return replace(self, wanted=wanted if self.wanted is None else self.wanted.joined(wanted))

    def after(self, wanted: Wanted, outcome: Outcome | None, ended: float) -> _State:
        """Return the state after a refresh; `outcome` is None if it failed."""
        again = outcome is None or outcome is Outcome.TOO_EARLY
        in_vain = self.in_vain + 1 if outcome is Outcome.IN_VAIN and wanted.by_query else 0
        failures = self.failures + 1 if outcome is None else 0
        before = replace(self, wanted=wanted) if again else replace(self, wanted=None)
        joined = before if self.wanted is None else before.wanting(self.wanted)
        return replace(joined, ended=ended, failures=failures, in_vain=in_vain)


def _pause(first: float, times: int) -> float:
    return min(first * 2.0 ** min(times - 1, 30), LONGEST_PAUSE)


class RefreshQueue:
    """Run `refresh` for each key for which it is wanted, no sooner than the interval after the last time.

    What `refresh` raises is logged once, and it is tried again a minute later, then after twice as long each time, up
    to an hour. `clock` tells seconds.
    """

    def __init__(self, refresh: Callable[[Wanted], Outcome], clock: Callable[[], float] = time.monotonic) -> None:
        self._refresh, self._clock = refresh, clock
        self._states: dict[Key, _State] = {}
        self._changed = Condition()
        self._running: Key | None = None
        self._thread: Thread | None = None

    def want(self, wanted: Wanted) -> bool:
        """Add a refresh, or join it to one that waits. Return False if it was not taken: there are too many tables."""
        with self._changed:
            if wanted.key not in self._states and len(self._states) >= MOST_TABLES:
                return False
            self._states[wanted.key] = self._states.get(wanted.key, _State()).wanting(wanted)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="hive_bitmap-refresh", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def is_wanted(self, key: Key) -> bool:
        """Return whether a refresh waits or runs."""
        with self._changed:
            return self._running == key or self._states.get(key, _State()).wanted is not None

    def wait(self, seconds: float) -> bool:
        """Wait until nothing waits or runs, `seconds` at most. Return whether that is so.

        What has failed, and is tried again later, is not waited for.
        """
        end = self._clock() + seconds
        with self._changed:
            while self._is_busy():
                left = end - self._clock()
                if left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def _is_busy(self) -> bool:
        waits = any(state.wanted is not None and not state.failures for state in self._states.values())
        return waits or self._running is not None

    def _run(self) -> None:
        while True:
            wanted = self._next()
            outcome, error = None, ""
            try:
                outcome = self._refresh(wanted)
            except Exception as e:
                error = str(e) or type(e).__name__
                log.debug("a refresh of %s failed", wanted.key, exc_info=True)
            self._ended(wanted, outcome, error)

    def _next(self) -> Wanted:
        """Wait for the time of the next refresh, and take it from the queue."""
        with self._changed:
            while True:
                key = min(self._states, key=lambda one: self._states[one].due)
                state = self._states[key]
                left = state.due - self._clock()
                if state.wanted is not None and left <= 0:
                    self._states[key], self._running = replace(state, wanted=None), key
                    return state.wanted
                self._changed.wait(None if state.wanted is None else left)

    def _ended(self, wanted: Wanted, outcome: Outcome | None, error: str) -> None:
        with self._changed:
            before = self._states[wanted.key]
            after = before.after(wanted, outcome, self._clock())
            self._states[wanted.key], self._running = after, None
            self._changed.notify_all()
        if error and not before.failures:
            log.warning(
                "the indexes of %s are not refreshed; that is tried again after %.0f seconds, then less often: %s",
                wanted.key,
                _pause(FIRST_PAUSE, 1),
                error,
            )
