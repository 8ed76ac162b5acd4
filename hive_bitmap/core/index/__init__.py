"""The definition and the storage of an index.

It is stored in segments, manifests and shards. Building, querying and checking share these modules. A published segment
never changes. `lookup` reads keys and bitmaps of a shard.
"""

__all__ = [
    "checksums",
    "definition",
    "deletion",
    "fingerprint",
    "generation",
    "key_columns",
    "lookup",
    "manifest",
    "markers",
    "partition_conditions",
    "refresh_record",
    "roots",
    "schema_drift",
    "shard",
    "table_schema",
]
