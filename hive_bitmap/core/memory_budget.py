"""The memory of all caches of this process, bounded in bytes together: whatever was used least recently goes first.

A `Cache` is one kind of what is kept. Each entry is weighed once, when it is added. What is evicted is read or computed
again at its next use; an answer from the index whose entry is gone is Spark's own plan.
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
LARGEST_SHARE = 2  # an entry of more than a half of the budget would evict nearly all others, and is not kept
ENTRY_BYTES = 512  # of the entry itself: its key, its place in the order
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class CacheUse:
    """What one kind of cache holds: how many entries, and their bytes."""

    kind: str
    entries: int
    bytes: int


class MemoryBudget:
    """Entries of all kinds in the order of their use, of `capacity` bytes at most."""

    def __init__(self, capacity: int = DEFAULT_BYTES) -> None:
        self._capacity, self._bytes = capacity, 0
        self._entries: OrderedDict[tuple[str, Hashable], tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    @property
    def capacity(self) -> int:
        """The bytes that all entries may take."""
        return self._capacity

    def resize(self, capacity: int) -> None:
        """Set the capacity, and evict what is too much."""
        with self._lock:
            self._capacity = capacity
            self._shrink()

    def fits(self, nbytes: int) -> bool:
        """Whether a value of so many bytes is kept when it is added."""
        return (nbytes + ENTRY_BYTES) * LARGEST_SHARE <= self._capacity

    def get(self, kind: str, key: Hashable) -> Any:
        """Return the value of a key, which counts as used now; None if there is none."""
        with self._lock:
            entry = self._entries.get((kind, key))
            if entry is not None:
                self._entries.move_to_end((kind, key))
        return None if entry is None else entry[0]

    def put(self, kind: str, key: Hashable, value: Any, nbytes: int) -> None:
        """Add a value of so many bytes, in place of an earlier one of this key, unless it is too large to be kept."""
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
        """Return what each kind holds, the largest first."""
        with self._lock:
            weights = [(kind, weight) for (kind, _), (_, weight) in self._entries.items()]
        found: dict[str, list[int]] = {}
        for kind, weight in weights:
            found.setdefault(kind, []).append(weight)
        uses = [CacheUse(kind, len(mine), sum(mine)) for kind, mine in found.items()]
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
    """Entries of one kind in a budget, which no other cache of this kind sees; `weigh` returns the bytes of a value."""

    _numbers = count()

    def __init__(self, kind: str, weigh: Callable[[V], int], budget: MemoryBudget = BUDGET) -> None:
        self._kind, self._weigh, self._budget = kind, weigh, budget
        self._number = next(self._numbers)

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it is not kept."""
        value: V | None = self._budget.get(self._kind, (self._number, key))
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._budget.put(self._kind, (self._number, key), value, self._weigh(value))

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made if it is not kept. If two threads make it, both get the first one."""
        value = self.get(key)
        if value is None:
            value = make()
            first = self.get(key)
            if first is not None:
                return first
            self.put(key, value)
        return value

    def remove(self, key: K) -> None:
        """Remove the value of a key, if it is kept."""
        self._budget.remove(self._kind, (self._number, key))

    def clear(self) -> None:
        """Remove all entries of this kind."""
        self._budget.clear(self._kind)


class CachedFunction(Generic[V]):
    """A function of hashable arguments whose results are kept in a budget."""

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
    """Keep the results of the function that is decorated; an error is not kept."""
    return lambda function: CachedFunction(function, Cache(kind, weigh))


def caches() -> tuple[CacheUse, ...]:
    """Return what the caches of this process hold, by kind, the largest first.

    All together, they hold no more than the setting `hive_bitmap.stores.memory` allows.
    """
    return BUDGET.uses()
