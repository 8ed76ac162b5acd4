"""The queue of refreshes of one process: what is wanted of a table is one refresh, when the time for it has come.

A thread of its own runs them, one after the other, and ends when none is wanted for a while. It is a daemon, so it
keeps no process alive.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Thread

from hive_bitmap.spark.following.refresh_state import FIRST_PAUSE, Key, Outcome, State, Wanted

log = logging.getLogger(__name__)
MOST_TABLES = 10_000
IDLE_SECONDS = 60.0  # after which the thread ends


class RefreshQueue:
    """Run `refresh` for each key for which it is wanted, no sooner than the interval after the last time.

    What `refresh` raises is logged once, and it is tried again a minute later, then after twice as long each time, up
    to an hour. `clock` tells seconds.
    """

    def __init__(self, refresh: Callable[[Wanted], Outcome], clock: Callable[[], float] = time.monotonic) -> None:
        self._refresh, self._clock = refresh, clock
        self._states: dict[Key, State] = {}
        self._changed = Condition()
        self._running: Key | None = None
        self._thread: Thread | None = None

    def want(self, wanted: Wanted) -> bool:
        """Add a refresh, or join it to one that waits. Return False if it was not taken: there are too many tables."""
        with self._changed:
            if wanted.key not in self._states and len(self._states) >= MOST_TABLES:
                self._forget_idle()
                if len(self._states) >= MOST_TABLES:
                    return False
            self._states[wanted.key] = self._states.get(wanted.key, State()).wanting(wanted)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="hive_bitmap-refresh", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def is_wanted(self, key: Key) -> bool:
        """Return whether a refresh waits or runs."""
        with self._changed:
            return self._is_wanted(key)

    def waiting(self) -> list[Wanted]:
        """Return the refreshes that wait."""
        with self._changed:
            return [state.wanted for state in self._states.values() if state.wanted is not None]

    def forget(self, key: Key) -> None:
        """Drop a refresh that waits, as its indexes are gone."""
        with self._changed:
            self._states.pop(key, None)
            self._changed.notify_all()

    def longest_interval(self) -> float:
        """Return the longest interval in seconds of what waits or runs; 0 if nothing does."""
        with self._changed:
            return max((key.interval for key in self._states if self._is_wanted(key)), default=0.0)

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
                self._changed.wait(min(left, IDLE_SECONDS))
            return True

    def _forget_idle(self) -> None:
        """Forget the tables of which nothing is wanted, and whose next refresh need not wait."""
        now = self._clock()
        idle = [key for key, state in self._states.items() if state.is_idle(key, now) and key != self._running]
        for key in idle:
            del self._states[key]

    def _is_wanted(self, key: Key) -> bool:
        return self._running == key or self._states.get(key, State()).wanted is not None

    def _is_busy(self) -> bool:
        waits = any(state.wanted is not None and not state.failures for state in self._states.values())
        return waits or self._running is not None

    def _run(self) -> None:
        while (wanted := self._next()) is not None:
            outcome, error = None, ""
            try:
                outcome = self._refresh(wanted)
            except Exception as e:
                error = str(e) or type(e).__name__
                log.debug("a refresh of %s failed", wanted.key, exc_info=True)
            self._ended(wanted, outcome, error)

    def _next(self) -> Wanted | None:
        """Wait for the time of the next refresh, and take it from the queue; None ends the thread: none is wanted."""
        with self._changed:
            while True:
                state = min(self._states.values(), key=lambda one: one.due, default=State())
                left = state.due - self._clock()
                if state.wanted is not None and left <= 0:
                    key = state.wanted.key
                    self._states[key], self._running = replace(state, wanted=None), key
                    return state.wanted
                told = self._changed.wait(min(left, IDLE_SECONDS))
                if state.wanted is None and not told:
                    self._thread = None
                    return None

    def _ended(self, wanted: Wanted, outcome: Outcome | None, error: str) -> None:
        with self._changed:
            before = self._states.get(wanted.key, State())
            after = before.after(wanted, outcome, self._clock())
            self._states[wanted.key], self._running = after, None
            self._changed.notify_all()
        if error and not before.failures:
            log.warning(
                "the indexes of %s are not refreshed; that is tried again after %.0f seconds, then less often: %s",
                wanted.key,
                FIRST_PAUSE,
                error,
            )
