"""Answers from the index alone: how many rows satisfy a predicate, in all or by key.

`aggregates` has the entry points, `tally` counts in shards; files that the index does not know are read and added.
"""

__all__ = ["aggregates", "tally"]
