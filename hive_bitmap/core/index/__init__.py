"""The definition of an index and how it is stored: segments, manifests, shards, and lookup of keys in shards.

Building, querying and checking share these modules. A published segment never changes. `lookup` reads keys and
bitmaps of a shard.
"""

__all__ = [
    "checksums",
    "covered",
    "definition",
    "deletion",
    "fingerprint",
    "generation",
    "key_columns",
    "lookup",
    "manifest",
    "markers",
    "merging",
    "packed_rows",
    "partition_conditions",
    "refresh_record",
    "roots",
    "schema_drift",
    "segment_plan",
    "shard",
    "slots",
    "table_schema",
    "unreadable",
]
