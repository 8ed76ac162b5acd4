"""Indexes that follow their tables: writes and unindexed files are queued, and refreshed in the background.

`Refresher` takes what the JVM and the planner see; its `RefreshQueue` decides when to refresh, `table_refresh` does it.
"""

__all__ = ["places", "refresh_all", "refresh_queue", "refresh_state", "refresher", "table_refresh"]
