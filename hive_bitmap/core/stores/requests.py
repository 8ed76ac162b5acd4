"""Count the requests of this process to remote stores, by kind.

The bytes read and written are counted too. A request that is retried, by this package or by a client library, is
counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

LIST, STATUS, READ, WRITE, DELETE, OTHER = "list", "status", "read", "write", "delete", "other"


@dataclass(frozen=True)
class Requests:
    """The numbers of requests by kind, and of bytes read and written."""

    by_kind: Mapping[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def total(self) -> int:
        return sum(self.by_kind.values())

    def __sub__(self, before: Requests) -> Requests:
        by_kind = {kind: count - before.by_kind.get(kind, 0) for kind, count in self.by_kind.items()}
        return Requests(
            {kind: count for kind, count in by_kind.items() if count},
            self.bytes_read - before.bytes_read,
            self.bytes_written - before.bytes_written,
        )

    def __add__(self, more: Requests) -> Requests:
        kinds = sorted({*self.by_kind, *more.by_kind})
        return Requests(
            {kind: self.by_kind.get(kind, 0) + more.by_kind.get(kind, 0) for kind in kinds},
            self.bytes_read + more.bytes_read,
            self.bytes_written + more.bytes_written,
        )

    def __str__(self) -> str:
        """Return the numbers of requests and bytes as text.

        >>> str(Requests({"list": 1, "read": 3}, 2_000_000))
        '4 requests (1 list, 3 read), 2.0 MB read'
        >>> str(Requests({}, 0))
        '0 requests'
        """
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.by_kind.items()))
        sizes = [f"{count / 1e6:.1f} MB {word}" for word, count in self._bytes() if count]
        return ", ".join([f"{self.total} requests" + (f" ({kinds})" if kinds else ""), *sizes])

    def _bytes(self) -> list[tuple[str, int]]:
        return [("read", self.bytes_read), ("written", self.bytes_written)]


class _Counter:
    def __init__(self) -> None:
        self._lock = Lock()
        self._total = Requests()

    def add(self, more: Requests) -> None:
        with self._lock:
            self._total += more

    @property
    def total(self) -> Requests:
        return self._total


_counter = _Counter()


def count(kind: str) -> None:
    """Count a request of this kind."""
    _counter.add(Requests({kind: 1}))


def count_bytes(read: int, written: int = 0) -> None:
    """Count bytes that were read or written."""
    _counter.add(Requests({}, read, written))


def add(more: Requests) -> None:
    """Add requests of other processes, such as tasks."""
    _counter.add(more)


def so_far() -> Requests:
    """Return all requests of this process so far."""
    return _counter.total


@dataclass
class Measured:
    """The requests inside a `with measured()` block, set when this block ends."""

    requests: Requests = field(default_factory=Requests)


@contextmanager
def measured() -> Iterator[Measured]:
    """Count the requests inside the `with` block.

    Requests of other threads at the same time count too.
    """
    before, result = so_far(), Measured()
    try:
        yield result
    finally:
        result.requests = so_far() - before
