"""Query index tables through HiveServer2.

This needs no Spark, no JVM and no access to files. The connection is a DB-API one. The server sends index rows,
manifests and listings of base files, and bitmaps are combined on the client. Only `register` and scripts change
anything on the server.

`hiveserver/` opens no files: a server sends what other rooms read from files. `parser` parses a condition, whose tree
Spark gives elsewhere; what is not on its allowlist (`leaves`) all rows may satisfy. `tables` and `files` query what
there is (`DESCRIBE`; `dfs`, or Spark's file sources), and `states` turns the result into the input of
`selecting/candidates`. Manifests arrive as lines of JSON. `evaluation` fetches index rows under a condition
(`hiveql`) that may be wider than the predicate and never narrower; `evaluation` tests their keys again and ORs their
bitmaps into bits. For NOT, it fetches the rows of the other keys. The answers of the server cannot have become
outdated meanwhile: a generation never changes, and the locations are looked up again at the end.

This room cannot know where lines or sync marks lie within a block. In a table that a SerDe reads, a split of
`--min-split` bytes or more that shares a byte with a block holds an end of the block, or one of the bytes that lie
that far apart in it (`selecting/offsets.covering_offsets`). Only the last split of a file may be shorter, and that
one holds the end of the file.
"""

__all__ = [
    "connection",
    "register",
    "server_queries",
    "states",
]
