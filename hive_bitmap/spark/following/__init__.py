"""Let indexes follow their tables: queue writes and unindexed files, refresh in the background.

`Refresher` receives what the JVM and the planner see; its `RefreshQueue` decides when to refresh, and `table_refresh`
does it.
"""

__all__ = ["refresh_queue", "refresher", "table_refresh"]
