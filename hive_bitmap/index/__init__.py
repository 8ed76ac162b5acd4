"""The definition of an index and how it is stored: generations, manifests, shards, and lookup of keys in shards.

Building, querying and checking share these modules. A published generation never changes. `catalog` finds the indexes
of a table; `lookup` reads keys and bitmaps of a shard.
"""

__all__ = [
    "catalog",
    "checksums",
    "coverage",
    "definition",
    "deletion",
    "fingerprint",
    "generation",
    "listing_digest",
    "locations",
    "lookup",
    "manifest",
    "markers",
    "partition_conditions",
    "refresh_record",
    "roots",
    "schema_drift",
    "shard",
    "table_schema",
    "trust",
    "unreadable",
]
