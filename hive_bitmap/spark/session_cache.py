"""What is kept of each session for a few seconds, so that queries need not ask the metastore again.

All of a session is one object, which goes with the session; a `TtlCache` is a part of it. What depends on nothing of a
session but its user is kept once for all sessions of that user: clients of a server open a session for a few queries.
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


class _User:
    """A user of an application, as long as a session is known that is this user's."""


_kept: WeakKeyDictionary[SparkSession | _User, dict[TtlCache[Any, Any], dict[Any, tuple[float, Any]]]] = (
    WeakKeyDictionary()
)
_users: WeakValueDictionary[tuple[str, str], _User] = WeakValueDictionary()  # by application and name
_user_of: WeakKeyDictionary[SparkSession, _User] = WeakKeyDictionary()
_caches: WeakSet[TtlCache[Any, Any]] = WeakSet()
_lock = Lock()


def belongs_to(spark: SparkSession, user: str) -> None:
    """Say whose a session is: it shares what is kept by user with all sessions of that user in its application."""
    if spark not in _user_of:
        application = spark.sparkContext.applicationId
        with _lock:
            _user_of[spark] = _users.setdefault((application, user), _User())


class TtlCache(Generic[K, V]):
    """A cache of the `most` newest values of each session, or with `by_user` of each user, by key.

    `version` changes when the cache is cleared. Whoever looks up what the clearing may concern takes it before, and
    gives it with the value: what was true before is not kept then.
    """

    def __init__(self, most: int = 4096, *, by_user: bool = False) -> None:
        self._most = most
        self._by_user = by_user
        self.version = 0
        _caches.add(self)

    def get(self, spark: SparkSession, key: K, seconds: float) -> V | None:
        """Return the value that was added in the last `seconds`; None if there is none."""
        with _lock:
            found = _kept.get(self._owner(spark), {}).get(self, {}).get(key)
        return found[1] if found is not None and time.monotonic() - found[0] < seconds else None

    def put(self, spark: SparkSession, key: K, value: V, version: int | None = None) -> None:
        """Add a value, as of now, unless the cache was cleared since it had this version, if one is given."""
        with _lock:
            if version not in (None, self.version):
                return
            mine = _kept.setdefault(self._owner(spark), {}).setdefault(self, {})
            mine.pop(key, None)
            mine[key] = time.monotonic(), value
            if len(mine) > self._most:
                del mine[next(iter(mine))]

    def drop(self, spark: SparkSession, key: K) -> None:
        """Remove the value of this key, if there is one."""
        with _lock:
            _kept.get(self._owner(spark), {}).get(self, {}).pop(key, None)

    def _owner(self, spark: SparkSession) -> SparkSession | _User:
        """Whose values these are: a session's of which the user is not known are its own."""
        return _user_of.get(spark, spark) if self._by_user else spark


def clear(*caches: TtlCache[Any, Any]) -> None:
    """Clear these caches for all sessions; all caches if none is named."""
    with _lock:
        for cache in caches or tuple(_caches):
            cache.version += 1
            for kept in _kept.values():
                kept.pop(cache, None)
