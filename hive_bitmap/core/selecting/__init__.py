"""Evaluation of a predicate against the shards of its indexes: which rows of each block may match.

`candidates` decides which files are looked up in which index, and which are read whole; `select` combines bitmaps. The
functions run in the driver and in tasks alike. A file that no index knows is never dropped. `offsets` has the rows
that may match in the words of compact indexes; `live_counts` leaves rows out of counts that the table has deleted.
`split_order` has the order in which Spark's own scan delivers them; `table_files` what indexes know of listed files.
"""

__all__ = [
    "candidates",
    "deleted_rows",
    "key_matches",
    "live_counts",
    "lookup_units",
    "offsets",
    "select",
    "split_order",
    "table_files",
]
