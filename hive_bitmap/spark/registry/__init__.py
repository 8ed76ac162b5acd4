"""The indexes of tables in the metastore.

`catalog` finds the indexes of a table by the properties of its index tables, `hints` finds indexes that a query misses.
Other modules find where indexes lie, what they cover and which are trusted.
"""

__all__ = ["catalog", "coverage", "hints", "locations", "trust"]
