"""What a session was told a moment ago, which a query need not ask the metastore again."""

from __future__ import annotations

import time
from collections.abc import Hashable
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key, each kept for a session and no longer than it: the newest of its keys, `most` of them."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._kept: WeakKeyDictionary[SparkSession, dict[K, tuple[float, V]]] = WeakKeyDictionary()
        self._lock = Lock()

    def get(self, spark: SparkSession, key: K, seconds: float) -> V | None:
        """What was kept in the last `seconds`; None if nothing was."""
        with self._lock:
            found = self._kept.get(spark, {}).get(key)
        return found[1] if found is not None and time.monotonic() - found[0] < seconds else None

    def keep(self, spark: SparkSession, key: K, value: V) -> None:
        """Keep a value that was told now."""
        with self._lock:
            mine = self._kept.setdefault(spark, {})
            mine.pop(key, None)
            mine[key] = time.monotonic(), value
            if len(mine) > self._most:
                del mine[next(iter(mine))]

    def drop(self, spark: SparkSession, key: K) -> None:
        """Keep no value of this key."""
        with self._lock:
            self._kept.get(spark, {}).pop(key, None)

    def clear(self) -> None:
        """Keep nothing of any session."""
        with self._lock:
            self._kept.clear()
