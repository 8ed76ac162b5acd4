"""The indexes that tables have in the metastore: where they lie, which partitions they cover, and who is believed.

`catalog` finds the indexes of a table by the properties of its index tables, `hints` those that a query misses.
"""

__all__ = ["catalog", "coverage", "hints", "locations", "trust"]
