"""Query index tables through HiveServer2.

This needs no Spark, no JVM and no access to files. The connection is a DB-API connection. The server sends index rows,
manifests and listings of base files, and the client combines bitmaps. Only `register` and scripts change anything on
the server.

`parser` parses a condition. A part of it that is not on the allowlist (`leaves`) may be true for any row. `tables` and
`files` query tables and folders (by `DESCRIBE`; by `dfs` or Spark's file sources), and `states` converts the results to
the input of `selecting/candidates`. Manifests arrive as lines of JSON. `evaluation` fetches index rows under a
condition (`hiveql`) that may be wider than the predicate but never narrower, tests their keys again, and ORs their
bitmaps into bits. For NOT, it fetches the rows of the other keys. The rows of a segment never change, and the locations
of segments are compared again at the end, so the result belongs to one state of the index.

For tables that a SerDe reads, the positions of lines or sync marks within a block are unknown here.
`selecting/offsets.covering_offsets` describes how offsets are nevertheless computed, from `--min-split`.
"""

__all__ = [
    "connection",
    "register",
    "server_queries",
    "states",
]
