"""The definition and the storage of an index.

An index is stored in segments, which have a manifest and shards. Building, querying and checking share these modules. A
published segment never changes. `lookup` reads keys and bitmaps of a shard.
"""

__all__ = [
    "aggregate_columns",
    "checksums",
    "definition",
    "deletion",
    "fingerprint",
    "generation",
    "key_columns",
    "lookup",
    "manifest",
    "markers",
    "partial_aggregates",
    "partition_conditions",
    "refresh_record",
    "roots",
    "schema_drift",
    "shard",
    "table_schema",
]
