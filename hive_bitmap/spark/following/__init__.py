"""Let indexes follow their tables: queue writes and unindexed files, refresh in the background.

`Refresher` receives what the JVM and the planner see; its `RefreshQueue` decides when to refresh, and `table_refresh`
does it.
"""

__all__ = ["places", "refresh_all", "refresh_queue", "refresh_state", "refresher", "table_refresh"]
