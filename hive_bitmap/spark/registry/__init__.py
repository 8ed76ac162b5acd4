"""The indexes of tables in the metastore: where they lie, what they cover and which are trusted.

`catalog` finds the indexes of a table by the properties of its index tables, `hints` finds indexes that a query misses.
"""

__all__ = ["catalog", "coverage", "hints", "locations", "trust"]
