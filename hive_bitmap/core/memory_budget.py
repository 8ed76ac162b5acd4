"""One memory budget, in bytes, for all caches of this process.

The entry that was least recently used is evicted first. A `Cache` holds one kind of entries. Each entry is weighed
once, when it is added. What is evicted is read or computed again at its next use; where the entry of an answer from the
index is gone, Spark's own plan runs.

Everything that is kept of indexes, listings, tables and decisions is an entry of one budget (`memory_budget`), with its
weight in bytes; what was used least recently goes first. A decision refers to the listing of its files weakly, since
many decisions share one: if it was evicted, Spark executes its own plan. What is kept elsewhere is bounded by number
and small: names, sessions, and in the JVM `Verdicts` and `PlanningGate`. `QueryRecord` is
bounded in bytes. A program may stop Spark and start it again in its process: `CurrentContext` has all of these
forgotten when a SparkContext ends, and ends the threads that call Python, because Hive keeps an embedded metastore
for each thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import update_wrapper
from itertools import count
from threading import Lock
from typing import Any, Generic, TypeVar

DEFAULT_BYTES = 384 << 20
LARGEST_SHARE = 2  # an entry of more than half of the budget would evict nearly all others, so it is not cached
ENTRY_BYTES = 512  # of the entry itself: its key, its place in the order
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class CacheUse:
    """The number of entries and bytes that one kind of cache holds."""

    kind: str
    entries: int
    bytes: int


class MemoryBudget:
    """Cache entries of all kinds, in the order of their use.

    They take at most `capacity` bytes.
    """

    def __init__(self, capacity: int = DEFAULT_BYTES) -> None:
        self._capacity, self._bytes = capacity, 0
        self._entries: OrderedDict[tuple[str, Hashable], tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    @property
    def capacity(self) -> int:
        """The bytes that all entries may take."""
        return self._capacity

    def resize(self, capacity: int) -> None:
        """Set the capacity, and evict entries beyond it."""
        with self._lock:
            self._capacity = capacity
            self._shrink()

    def fits(self, nbytes: int) -> bool:
        """Return whether a value of so many bytes can be cached."""
        return (nbytes + ENTRY_BYTES) * LARGEST_SHARE <= self._capacity

    def get(self, kind: str, key: Hashable) -> Any:
        """Return the value of a key; None if it is not cached.

        The entry counts as used now.
        """
        with self._lock:
            entry = self._entries.get((kind, key))
            if entry is not None:
                self._entries.move_to_end((kind, key))
        return None if entry is None else entry[0]

    def put(self, kind: str, key: Hashable, value: Any, nbytes: int) -> None:
        """Add a value of so many bytes.

        It replaces an earlier value of this key. A value that is too large is not cached.
        """
        weight = nbytes + ENTRY_BYTES
        with self._lock:
            self._drop((kind, key))
            if self.fits(nbytes):
                self._entries[kind, key] = value, weight
                self._bytes += weight
                self._shrink()

    def remove(self, kind: str, key: Hashable) -> None:
        """Remove the entry of a key, if there is one."""
        with self._lock:
            self._drop((kind, key))

    def clear(self, kind: str) -> None:
        """Remove all entries of a kind."""
        with self._lock:
            for place in [place for place in self._entries if place[0] == kind]:
                self._drop(place)

    def uses(self) -> tuple[CacheUse, ...]:
        """Return the use of each kind, the largest first."""
        with self._lock:
            weights = [(kind, weight) for (kind, _), (_, weight) in self._entries.items()]
        by_kind: dict[str, list[int]] = {}
        for kind, weight in weights:
            by_kind.setdefault(kind, []).append(weight)
        uses = [CacheUse(kind, len(of_kind), sum(of_kind)) for kind, of_kind in by_kind.items()]
        return tuple(sorted(uses, key=lambda use: -use.bytes))

    def _drop(self, place: tuple[str, Hashable]) -> None:
        entry = self._entries.pop(place, None)
        if entry is not None:
            self._bytes -= entry[1]

    def _shrink(self) -> None:
        while self._bytes > self._capacity:
            self._drop(next(iter(self._entries)))


BUDGET = MemoryBudget()


class Cache(Generic[K, V]):
    """Entries of one kind in a budget.

    No other cache of this kind sees them. `weigh` returns the bytes of a value.
    """

    _numbers = count()

    def __init__(self, kind: str, weigh: Callable[[V], int], budget: MemoryBudget = BUDGET) -> None:
        self._kind, self._weigh, self._budget = kind, weigh, budget
        self._number = next(self._numbers)

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it is not cached."""
        value: V | None = self._budget.get(self._kind, (self._number, key))
        return value

    def put(self, key: K, value: V) -> None:
        """Cache a value."""
        self._budget.put(self._kind, (self._number, key), value, self._weigh(value))

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; make it if it is missing.

        If two threads make it, both get the first value.
        """
        value = self.get(key)
        if value is None:
            value = make()
            first = self.get(key)
            if first is not None:
                return first
            self.put(key, value)
        return value

    def remove(self, key: K) -> None:
        """Remove the value of a key, if it is cached."""
        self._budget.remove(self._kind, (self._number, key))

    def clear(self) -> None:
        """Remove all entries of this kind."""
        self._budget.clear(self._kind)


class CachedFunction(Generic[V]):
    """A function whose results are cached in a budget.

    Its arguments must be hashable.
    """

    def __init__(self, function: Callable[..., V], cache: Cache[tuple[Any, ...], V]) -> None:
        self._function, self._cache = function, cache
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> V:
        return self._cache.of(arguments, lambda: self._function(*arguments))

    def forget(self, *arguments: Any) -> None:
        """Remove the result for these arguments."""
        self._cache.remove(arguments)

    def cache_clear(self) -> None:
        """Remove all results."""
        self._cache.clear()


def cached(kind: str, weigh: Callable[[V], int]) -> Callable[[Callable[..., V]], CachedFunction[V]]:
    """Cache the results of the decorated function.

    Errors are not cached.
    """
    return lambda function: CachedFunction(function, Cache(kind, weigh))


def caches() -> tuple[CacheUse, ...]:
    """Return the use of the caches of this process, by kind.

    The largest comes first. Together, they hold no more than the setting `hive_bitmap.stores.memory` allows.
    """
    return BUDGET.uses()
