"""Measure the latency and bandwidth of each store.

Requests that have another purpose are measured. Only `stores.speed_of` makes a request for a measurement, if there is
no measurement yet.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from hive_bitmap.core.stores.paths import parts

T = TypeVar("T")
REMEMBERED = 32  # measurements kept of each store, the latest, so that the speed follows the load of the store
SMALL, LARGE = 64 << 10, 1 << 20  # responses of at most SMALL bytes show the latency, of at least LARGE the bandwidth
BANDWIDTH = 100e6  # bytes per second, assumed until the first large response


@dataclass(frozen=True)
class Speed:
    """The speed of a store.

    `request` is the number of seconds until a response begins, `byte` the number of seconds for each byte. For the
    local file system, `request` and `byte` are 0.
    """

    request: float = 0.0
    byte: float = 0.0


LOCAL = Speed()
USUAL = Speed(0.03, 1 / BANDWIDTH)  # typical for an object store in the same region


@dataclass
class _Measurements:
    small: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    large: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def speed(self) -> Speed | None:
        if not self.small:
            return None
        request = statistics.median(self.small)
        bytes_ = [max(seconds - request, 1e-9) / size for seconds, size in self.large]
        return Speed(request, statistics.median(bytes_) if bytes_ else 1 / BANDWIDTH)


_measurements: dict[tuple[str, str], _Measurements] = {}
_lock = Lock()


def of(path: str) -> Speed | None:
    """Return the measured speed of the store of this path.

    Return None before the first small response, which shows the latency.
    """
    with _lock:
        seen = _measurements.get(parts(path)[:2])
        return None if seen is None else seen.speed()


def note(path: str, seconds: float, size: int = 0) -> None:
    """Record the duration of a request to the store of this path.

    The request took `seconds`, and its response has `size` bytes. A response of more than SMALL and fewer than LARGE
    bytes is ignored.
    """
    with _lock:
        seen = _measurements.setdefault(parts(path)[:2], _Measurements())
        if size <= SMALL:
            seen.small.append(seconds)
        elif size >= LARGE:
            seen.large.append((seconds, size))


@contextmanager
def noted(path: str, size: int = 0) -> Iterator[None]:
    """Record the duration of the request inside the `with` block, unless the request fails.

    `size` is the size of the response in bytes.
    """
    started = time.monotonic()
    yield
    note(path, time.monotonic() - started, size)


def timed(path: str, request: Callable[[], T], size: int = 0) -> Callable[[], T]:
    """Return a function that calls `request` and records the duration of the call.

    Nothing is recorded if `request` fails. `path` is a path in the store, and `size` the size of the response in bytes.
    """

    def timed_request() -> T:
        with noted(path, size):
            return request()

    return timed_request


def forget() -> None:
    """Forget all measurements."""
    with _lock:
        _measurements.clear()
