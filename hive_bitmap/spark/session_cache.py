"""Cache values of a session, to save metastore requests and jobs.

A value is used for a limited time, from seconds to an hour. All values of a session are in one object, which is dropped
with the session. A `TtlCache` has a part of these values. Values that depend only on the user are cached once for all
sessions of that user, because a client of a server may open a new session for every few queries.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Values:
    """The cached values of a session or of a user.

    They are dropped with the session, or with the user's last session.
    """

    def __init__(self) -> None:
        self.of_cache: dict[TtlCache[Any, Any], dict[Any, tuple[float, Any]]] = {}


# For each session, its own values and those of its user. Both are the same object while the user is unknown.
_sessions: WeakKeyDictionary[SparkSession, tuple[_Values, _Values]] = WeakKeyDictionary()
_users: WeakValueDictionary[tuple[str, str], _Values] = WeakValueDictionary()  # by application and name
_caches: WeakSet[TtlCache[Any, Any]] = WeakSet()
_lock = Lock()


def belongs_to(spark: SparkSession, user: str) -> None:
    """Set the user of a session.

    All sessions of a user in an application share the caches that are kept by user. The user of a session is set once;
    later calls have no effect.
    """
    with _lock:
        own, of_user = _values_of(spark)
    if of_user is own:
        application = spark.sparkContext.applicationId
        with _lock:
            _sessions[spark] = own, _users.setdefault((application, user), _Values())


def _values_of(spark: SparkSession) -> tuple[_Values, _Values]:
    values = _sessions.get(spark)
    if values is None:
        own = _Values()
        values = _sessions[spark] = own, own
    return values


class TtlCache(Generic[K, V]):
    """A cache of values by key, separate for each session.

    Only the `most` newest values of a session are kept. With `by_user`, values are cached for each user instead.
    `version` changes when the cache is cleared: a caller reads it before computing a value, and passes it to `put`,
    which ignores a value whose computation began before the cache was cleared.
    """

    def __init__(self, most: int = 4096, *, by_user: bool = False) -> None:
        self._most = most
        self._by_user = by_user
        self.version = 0
        _caches.add(self)

    def get(self, spark: SparkSession, key: K, seconds: float) -> V | None:
        """Return the value of a key, unless it is older than `seconds`; else None."""
        with _lock:
            entry = self._entries(spark).get(key)
        return entry[1] if entry is not None and time.monotonic() - entry[0] < seconds else None

    def put(self, spark: SparkSession, key: K, value: V, version: int | None = None) -> None:
        """Add a value, with the current time.

        If the cache was cleared since it had the version `version`, nothing is added. None stands for any version.
        """
        with _lock:
            if version not in (None, self.version):
                return
            entries = self._entries(spark)
            entries.pop(key, None)
            entries[key] = time.monotonic(), value
            if len(entries) > self._most:
                del entries[next(iter(entries))]

    def drop(self, spark: SparkSession, key: K) -> None:
        """Remove the value of this key, if there is one."""
        with _lock:
            self._entries(spark).pop(key, None)

    def _entries(self, spark: SparkSession) -> dict[K, tuple[float, V]]:
        own, of_user = _values_of(spark)
        return (of_user if self._by_user else own).of_cache.setdefault(self, {})


def clear(*caches: TtlCache[Any, Any]) -> None:
    """Clear these caches for all sessions; without arguments, clear all caches."""
    with _lock:
        for cache in caches or tuple(_caches):
            cache.version += 1
            for own, of_user in _sessions.values():
                own.of_cache.pop(cache, None)
                of_user.of_cache.pop(cache, None)
