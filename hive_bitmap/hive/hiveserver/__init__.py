"""Query index tables through HiveServer2.

This needs no Spark, no JVM and no access to files. The connection is a DB-API one. The server sends index rows,
manifests and listings of base files, and bitmaps are combined on the client. Only `register`, `hive2_index` and scripts
change anything on the server.
"""

__all__ = [
    "connection",
    "register",
    "server_queries",
    "states",
]
