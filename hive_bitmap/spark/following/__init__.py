"""Refresh indexes in the background after writes to their tables.

`Refresher` receives writes from the JVM, and unindexed files from the planner. Its `RefreshQueue` decides when to
refresh, and `table_refresh` refreshes.
"""

__all__ = ["refresh_queue", "refresher", "table_refresh"]
