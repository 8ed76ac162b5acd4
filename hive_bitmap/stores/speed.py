"""How fast each store answers: seen at the requests that are made of it anyway, so it costs none."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from hive_bitmap.stores.paths import parts

T = TypeVar("T")
REMEMBERED = 32  # requests of each store: a store that is busy now counts as it is now
SMALL, LARGE = 64 << 10, 1 << 20  # bytes of an answer that tells the latency, and of one that tells the bandwidth
BANDWIDTH = 100e6  # bytes a second, until a large answer came


@dataclass(frozen=True)
class Speed:
    """Seconds until a request is answered, and seconds a byte of the answer; both are 0 for the local file system."""

    request: float = 0.0
    byte: float = 0.0


LOCAL = Speed()
USUAL = Speed(0.03, 1 / BANDWIDTH)  # of an object store in the same region


@dataclass
class _Seen:
    small: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    large: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def speed(self) -> Speed | None:
        if not self.small:
            return None
        request = statistics.median(self.small)
        bytes_ = [max(seconds - request, 1e-9) / size for seconds, size in self.large]
        return Speed(request, statistics.median(bytes_) if bytes_ else 1 / BANDWIDTH)


_seen: dict[tuple[str, str], _Seen] = {}
_lock = Lock()


def of(path: str) -> Speed | None:
    """The speed of the store of this path; None where nothing has been asked of it yet."""
    with _lock:
        seen = _seen.get(parts(path)[:2])
        return None if seen is None else seen.speed()


def note(path: str, seconds: float, size: int = 0) -> None:
    """A request was answered in so many seconds, by so many bytes."""
    with _lock:
        seen = _seen.setdefault(parts(path)[:2], _Seen())
        if size <= SMALL:
            seen.small.append(seconds)
        elif size >= LARGE:
            seen.large.append((seconds, size))


@contextmanager
def noted(path: str, size: int = 0) -> Iterator[None]:
    """Note the request of this block, unless it fails."""
    started = time.monotonic()
    yield
    note(path, time.monotonic() - started, size)


def timed(path: str, ask: Callable[[], T], size: int = 0) -> Callable[[], T]:
    """The same function, whose calls are noted: of one that is repeated, that which was answered."""

    def ask_noted() -> T:
        with noted(path, size):
            return ask()

    return ask_noted


def forget() -> None:
    """Let go of all that was seen."""
    with _lock:
        _seen.clear()
