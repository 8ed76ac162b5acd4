"""TTL cache of values by session, so that queries need not read the metastore again within a few seconds."""

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
    """A cache of the `most` newest values of each session, by key. The values of a session are dropped with it.

    `version` changes when the cache is cleared. Whoever looks up what the clearing may concern takes it before, and
    gives it with the value: what was true before is not kept then.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self.version = 0
        self._kept: WeakKeyDictionary[SparkSession, dict[K, tuple[float, V]]] = WeakKeyDictionary()
        self._lock = Lock()

    def get(self, spark: SparkSession, key: K, seconds: float) -> V | None:
        """Return the value that was added in the last `seconds`; None if there is none."""
        with self._lock:
            found = self._kept.get(spark, {}).get(key)
        return found[1] if found is not None and time.monotonic() - found[0] < seconds else None

    def put(self, spark: SparkSession, key: K, value: V, version: int | None = None) -> None:
        """Add a value, as of now, unless the cache was cleared since it had this version, if one is given."""
        with self._lock:
            if version not in (None, self.version):
                return
            mine = self._kept.setdefault(spark, {})
            mine.pop(key, None)
            mine[key] = time.monotonic(), value
            if len(mine) > self._most:
                del mine[next(iter(mine))]

    def drop(self, spark: SparkSession, key: K) -> None:
        """Remove the value of this key, if there is one."""
        with self._lock:
            self._kept.get(spark, {}).pop(key, None)

    def clear(self) -> None:
        """Remove all values of all sessions."""
        with self._lock:
            self.version += 1
            self._kept.clear()
