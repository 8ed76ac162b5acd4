"""The indexes of tables in the metastore.

`catalog` finds the indexes of a table by the properties of its index tables, and `catalog_changes` changes these.
`hints` tells users why a query does not use indexes that exist: its table was renamed, or the query reads the table's
folder by path. Other modules find where indexes lie, what they cover and which are trusted.
"""

__all__ = ["catalog", "catalog_changes", "coverage", "hints", "locations", "trust"]
