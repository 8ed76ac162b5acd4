"""What an index is and how it is stored: definition, published generations, manifests, shards, and their lookup.

Here is all that builds, queries and checks have in common; what is published never changes. `catalog` finds the
indexes of a table, `lookup` reads keys and bitmaps of a shard.
"""

__all__ = [
    "catalog",
    "checksums",
    "coverage",
    "definition",
    "fingerprint",
    "generation",
    "lookup",
    "manifest",
    "schema_drift",
    "shard",
    "table_schema",
]
