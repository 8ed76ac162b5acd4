"""Let indexes follow their tables: refresh them in the background after writes.

`Refresher` receives writes from the JVM, and unindexed files from the planner. Its `RefreshQueue` decides when to
refresh, and `table_refresh` refreshes.
"""

__all__ = ["refresh_queue", "refresher", "table_refresh"]
