"""Index tables through HiveServer2: no Spark, no JVM, and no access to files. A server, a DB-API connection, suffices.

The server sends index rows, manifests and listings of base files; bitmaps are combined here. What is asked of it
changes nothing there, but for `register` and scripts.
"""

__all__ = ["asking", "connection", "hive2_index", "register", "showing"]
