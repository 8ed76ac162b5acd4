"""The queue of refreshes of one process.

Each table has at most one pending refresh. A thread runs those that are due, one after the other, and ends when none is
requested for a while. It is a daemon, so it keeps no process alive.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Thread

from hive_bitmap.spark.following.refresh_state import FIRST_PAUSE, Key, Outcome, RefreshRequest, State

log = logging.getLogger(__name__)
MOST_TABLES = 10_000
IDLE_SECONDS = 60.0  # after this time without requests, the thread ends


class RefreshQueue:
    """Run `refresh` for each requested key.

    It runs no sooner than the interval after the last time. An error of `refresh` is logged once, and the refresh is
    tried again a minute later, then after twice as long each time, up to an hour. `clock` returns seconds.
    """

    def __init__(
        self, refresh: Callable[[RefreshRequest], Outcome], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._refresh, self._clock = refresh, clock
        self._states: dict[Key, State] = {}
        self._changed = Condition()
        self._running: Key | None = None
        self._thread: Thread | None = None

    def want(self, request: RefreshRequest) -> bool:
        """Add a refresh, or join it to a pending one.

        Return False if it was not accepted, since there are too many tables.
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

    def is_wanted(self, key: Key) -> bool:
        """Return whether a refresh is pending or running."""
        with self._changed:
            return self._is_wanted(key)

    def waiting(self) -> list[RefreshRequest]:
        """Return the pending refreshes."""
        with self._changed:
            return [state.request for state in self._states.values() if state.request is not None]

    def forget(self, key: Key) -> None:
        """Drop a pending refresh, since its indexes are gone."""
        with self._changed:
            self._states.pop(key, None)
            self._changed.notify_all()

    def longest_interval(self) -> float:
        """Return the longest interval in seconds of pending and running refreshes.

        Return 0 if there are none.
        """
        with self._changed:
            return max((key.interval for key in self._states if self._is_wanted(key)), default=0.0)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is pending or running, at most `seconds`.

        Return whether that was reached. Failed refreshes that are tried again later are not waited for.
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
        """Forget tables without requests whose next refresh need not wait."""
        now = self._clock()
        idle = [key for key, state in self._states.items() if state.is_idle(key, now) and key != self._running]
        for key in idle:
            del self._states[key]

    def _is_wanted(self, key: Key) -> bool:
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
        """Wait until the next refresh is due, and take it from the queue.

        Return None if none is requested for a while, which ends the thread.
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
