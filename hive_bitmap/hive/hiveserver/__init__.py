"""Query index tables through HiveServer2.

Such queries need no Spark, no JVM and no access to files. The connection is a DB-API connection. The server sends
index rows, manifests and listings of base files, and the client combines bitmaps. Only `register` and scripts change
anything on the server.

`parser` parses a condition. A part of a condition that is not on the allowlist (`leaves`) may be true for any row.
`tables` queries tables by `DESCRIBE`, and `files` lists folders by `dfs` or Spark's file sources. `states` converts the
results to the input of `selecting/candidates`. Manifests arrive as lines of JSON.

`evaluation` fetches index rows under a condition (`hiveql`), tests the keys of these rows again, and ORs their bitmaps
into bits. The condition may be wider than the predicate, but never narrower. For NOT, `evaluation` fetches the rows of
the keys that do not match. The rows of a segment never change, and the locations of segments are compared again at the
end, so the result belongs to one state of the index.

For tables with a SerDe, the client does not know the positions of lines or sync marks within a block.
`selecting/offsets.covering_offsets` describes how offsets are nevertheless computed, from `--min-split`.
"""

__all__ = [
    "connection",
    "register",
    "server_queries",
    "states",
]
