"""Find and change the indexes of tables in the metastore.

`catalog` finds the indexes of a table by the properties of its index tables, and `catalog_changes` changes these
properties. `hints` says why a query does not use existing indexes: its table was renamed, or the query reads the
table's folder by path. `locations` finds where indexes lie, `coverage` what they cover, and `trust` which are trusted.
"""

__all__ = ["catalog", "catalog_changes", "coverage", "hints", "locations", "trust"]
