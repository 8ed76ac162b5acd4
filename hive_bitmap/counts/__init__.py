"""Answers from the index alone: how many rows satisfy a predicate, in total or by key.

`aggregates` has the entry points, `tally` counts in shards. Files that the index does not know are read and counted.
"""

__all__ = ["aggregates", "tally"]
