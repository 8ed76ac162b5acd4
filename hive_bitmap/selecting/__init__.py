"""From a predicate and the shards of indexes to the rows of each block that may match.

`candidates` says which files are looked up in which index, and which are read whole; `select` combines bitmaps. Values
in, values out, in the driver and in tasks alike; what an index does not know is never dropped.
"""

__all__ = ["candidates", "key_matches", "lookup_units", "select"]
