"""Look up in indexes which rows of each block may match.

`table_files` compares the listed files with what the indexes cover. `candidates` decides which files are looked up in
which index, and which files are read whole. A file that no index covers is never dropped. `select` combines bitmaps.
`index_rows` reads the rows of an index, a row group at a time. The same functions run in the driver and in tasks.
`live_counts` excludes deleted rows from counts. `offsets` writes the blocks that may match as the result file of a
compact index. `split_order` computes the order in which Spark's own scan delivers rows. `first_rows` leaves out blocks
that a sorted query with a LIMIT does not need.
"""

__all__ = [
    "candidates",
    "first_rows",
    "index_rows",
    "key_matches",
    "live_counts",
    "lookup_units",
    "offsets",
    "select",
    "split_order",
    "table_files",
]
