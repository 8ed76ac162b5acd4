"""Evaluate a predicate against index shards.

The result is which rows of each block may match. `candidates` decides which files are looked up in which index, and
which are read whole; `select` combines bitmaps. The functions run in the driver and in tasks alike. A file that no
index covers is never dropped. `offsets` writes the rows that may match in the format of compact indexes; `live_counts`
subtracts rows that the table has deleted from counts. `split_order` has the order in which Spark's own scan delivers
rows; `table_files` has what indexes record about listed files.
"""

__all__ = [
    "candidates",
    "key_matches",
    "live_counts",
    "lookup_units",
    "offsets",
    "select",
    "split_order",
    "table_files",
]
