"""Keep the caches of this process in one memory budget, in bytes.

Each cached value of indexes, listings, tables and decisions is an entry of this budget. The weight of an entry, in
bytes, is computed once, when the entry is added. The least recently used entry is evicted first. An evicted value is
read or computed again at its next use. All entries of a `Cache` are of one kind. The decorator `cached` gives a
function a cache of its results. A decision refers to the listing of its files weakly, because many decisions share a
listing. If the decision or the listing was evicted, Spark's own plan runs.

Some caches are outside the budget, and have a limited number of entries: in Python, the answers of the metastore, for
at most two minutes (`TtlCache`), and the sessions; in the JVM, `Verdicts`, `PlanningGate`, `Versions` and the folders
that were written. `QueryRecord` is also outside the budget, and limited in bytes.

A program may stop Spark and start it again in the same process. So `CurrentContext` empties all caches when a
SparkContext ends. `CurrentContext` also ends the threads that call Python, because Hive keeps an embedded metastore for
each thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from itertools import count
from threading import Lock
from typing import Any, Generic, TypeVar

DEFAULT_BYTES = 384 << 20
LARGEST_SHARE = 2  # an entry of more than half of the budget is not cached, because it would evict nearly all others
ENTRY_BYTES = 512  # overhead of an entry: its key, and its place in the order of use
TEXT_BYTES = 60  # bytes of a str, besides its characters
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def bytes_of_texts(texts: Mapping[str, str]) -> int:
    """Estimate the bytes of a mapping of texts."""
    return sum(len(name) + len(value) + 3 * TEXT_BYTES for name, value in texts.items())


@dataclass(frozen=True)
class CacheUse:
    """The number and total bytes of the cache entries of one kind."""

    kind: str
    entries: int
    bytes: int


class MemoryBudget:
    """The entries of all caches, with at most `capacity` bytes in total.

    Entries are in the order of their last use, the least recently used first.
    """

    def __init__(self, capacity: int = DEFAULT_BYTES) -> None:
        self._capacity, self._bytes = capacity, 0
        self._entries: OrderedDict[tuple[str, Hashable], tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    @property
    def capacity(self) -> int:
        """The maximum total bytes of all entries."""
        return self._capacity

    def resize(self, capacity: int) -> None:
        """Set the capacity in bytes, and evict entries until the remaining entries fit."""
        with self._lock:
            self._capacity = capacity
            self._shrink()

    def fits(self, nbytes: int) -> bool:
        """Return whether a value of `nbytes` bytes can be cached."""
        return (nbytes + ENTRY_BYTES) * LARGEST_SHARE <= self._capacity

    def get(self, kind: str, key: Hashable) -> Any:
        """Return the value of a key, and mark the entry as used.

        Return None if no value is cached.
        """
        with self._lock:
            entry = self._entries.get((kind, key))
            if entry is not None:
                self._entries.move_to_end((kind, key))
        return None if entry is None else entry[0]

    def put(self, kind: str, key: Hashable, value: Any, nbytes: int) -> None:
        """Add a value of `nbytes` bytes, which replaces an earlier value of the key.

        A value that is too large (`fits`) is not cached.
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
        """Return the number and bytes of the entries of each kind.

        The kind with the most bytes comes first.
        """
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
    """A cache that keeps its entries in a memory budget.

    `weigh` returns the bytes of a value. Caches of one `kind` have separate keys, but are counted and cleared together.
    """

    _numbers = count()

    def __init__(self, kind: str, weigh: Callable[[V], int], budget: MemoryBudget = BUDGET) -> None:
        self._kind, self._weigh, self._budget = kind, weigh, budget
        self._number = next(self._numbers)

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if no value is cached."""
        value: V | None = self._budget.get(self._kind, (self._number, key))
        return value

    def put(self, key: K, value: V) -> None:
        """Add a value, which replaces an earlier value of the key."""
        self._budget.put(self._kind, (self._number, key), value, self._weigh(value))

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the cached value of a key, or compute and cache it.

        `make` computes the value. If another thread has cached a value of the key while `make` ran, that value is
        returned.
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
        """Remove the value of a key, if a value is cached."""
        self._budget.remove(self._kind, (self._number, key))

    def clear(self) -> None:
        """Remove all entries of this kind, even entries of other caches of the kind."""
        self._budget.clear(self._kind)


class CachedFunction(Generic[V]):
    """A function whose results are cached in a budget, by its arguments.

    The arguments must be hashable.
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
        """Remove all results, and all other cache entries of the same kind."""
        self._cache.clear()


def cached(kind: str, weigh: Callable[[V], int]) -> Callable[[Callable[..., V]], CachedFunction[V]]:
    """Return a decorator that caches the results of a function, but not its errors.

    The entries have this kind, and `weigh` returns the bytes of a result.
    """
    return lambda function: CachedFunction(function, Cache(kind, weigh))


def caches() -> tuple[CacheUse, ...]:
    """Return how much this process has cached, by kind.

    The result has the number and bytes of the entries, and begins with the kind that has the most bytes. The setting
    `hive_bitmap.stores.memory` limits the total bytes.
    """
    return BUDGET.uses()
