"""Queries that are left to Spark, because a store does not do for us what it does for Spark."""

from __future__ import annotations

import logging
from threading import Lock

from cachetools import LRUCache

from hive_bitmap.errors import HiveBitmapError, StoreError

log = logging.getLogger(__name__)
_said: LRUCache[str, bool] = LRUCache(256)
_lock = Lock()


def left_to_spark(error: HiveBitmapError) -> str:
    """Why a query is Spark's own; what a store says is logged, the first time that it says so."""
    reason = str(error)
    if isinstance(error, StoreError):
        with _lock:
            new = reason not in _said
            _said[reason] = True
        if new:
            log.warning("queries are left to Spark alone: %s", reason)
    return reason
