"""Leave queries to Spark if a store fails or refuses access."""

from __future__ import annotations

import logging
from threading import Lock

from cachetools import LRUCache

from hive_bitmap.errors import HiveBitmapError, StoreError

log = logging.getLogger(__name__)
_logged: LRUCache[str, bool] = LRUCache(256)
_lock = Lock()


def fallback_reason(error: HiveBitmapError) -> str:
    """Return the reason why a query is left to Spark.

    An error of a store is logged the first time it occurs.
    """
    reason = str(error)
    if isinstance(error, StoreError):
        with _lock:
            is_new = reason not in _logged
            _logged[reason] = True
        if is_new:
            log.warning("queries are left to Spark alone: %s", reason)
    return reason
