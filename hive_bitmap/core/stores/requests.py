"""Count and retry requests to remote stores, and convert their errors.

Requests are counted by kind, and so are the bytes read and written. A request that is retried, by this package or by a
client library, is counted once. Transient errors are retried. Converted errors have one line and no secrets.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from hive_bitmap.errors import StoreError

LIST, STATUS, READ, WRITE, DELETE, OTHER = "list", "status", "read", "write", "delete", "other"
T = TypeVar("T")
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0  # seconds between attempts; the wait doubles each time, with jitter
_MOST_CHARACTERS = 300  # most characters of an error message
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_SECRETS = re.compile(
    r"((?:secret|password|token|signature|credential|accountkey|sig|authorization)[a-z_.-]*\W{1,4})([^\s,;&\"']+)",
    re.IGNORECASE,
)


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
    """The requests of a `with measured()` block; set when the block ends."""

    requests: Requests = field(default_factory=Requests)


@contextmanager
def measured() -> Iterator[Measured]:
    """Count the requests inside the `with` block.

    Requests that other threads make at the same time are included.
    """
    before, result = so_far(), Measured()
    try:
        yield result
    finally:
        result.requests = so_far() - before


def summary(error: BaseException) -> str:
    """Return a store's error as one line.

    The line has the code and the message of the error. If the error has no code, the result is the first line of the
    error, with the HTTP status if there is one. Secrets are masked, and a long line is cut off.

    >>> summary(ValueError("403 Forbidden: <Error><Code>AccessDenied</Code><Message>No.</Message></Error> trace"))
    'AccessDenied: No.'
    >>> summary(ValueError("no way\\n\\tat java.lang"))
    'no way'
    >>> summary(ValueError("GET /x?X-Amz-Security-Token=abc&y=1"))
    'GET /x?X-Amz-Security-Token=...&y=1'
    """
    text = str(error) or type(error).__name__
    if match := _CODE.search(text):
        message = ": ".join(part.strip() for part in match.groups() if part)
    else:
        line = text.strip().splitlines()[0]
        message = re.sub(r"RPCError\(\"(?:[a-z.]+\.)?(\w+)\", \"([^\\]*).*", r"\1: \2", line)
        if (status := _STATUS.search(text)) and status[1].strip() not in message:
            message = f"{message}: {status[1].strip()}"
    return _SECRETS.sub(r"\1...", message)[:_MOST_CHARACTERS].rstrip(": ")


def failed(what: str, error: BaseException, advice: str = "") -> StoreError:
    """Return the StoreError for a failed request.

    `what` begins the message, and says what failed. `error` is the error of the client. `advice` names the settings to
    check.
    """
    return StoreError(f"{what}: {summary(error)}" + (f" ({advice})" if advice else ""))


def not_installed(scheme: str, package: str, extra: str) -> StoreError:
    """Return the error for a client package that is not installed.

    `scheme` is the scheme of the paths in the store. `extra` is the extra of hive_bitmap that installs the package.
    """
    return StoreError(
        f"files of scheme {scheme} are read with the package {package}, which is not installed here: "
        f"pip install 'hive_bitmap[{extra}]', on every machine that runs tasks"
    )


def retried(request: Callable[[], T], is_transient: Callable[[Exception], bool], attempts: int) -> T:
    """Call `request`, retry it after transient errors, and return its result.

    `request` is called at most `attempts` times. `is_transient` returns whether an error is transient. Raises the first
    error that is not transient. If all attempts fail with transient errors, raises the last error.
    """
    for attempt in range(attempts - 1):
        try:
            return request()
        except Exception as error:
            if not is_transient(error):
                raise
            wait = min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
            time.sleep(wait * random.uniform(0.5, 1.5))
    return request()
