"""Define an index, and read and write its files.

An index is stored in segments. A segment has a manifest and shards, and never changes after it is published. `lookup`
reads keys and bitmaps of a shard. Building, querying and checking indexes share the modules of this package.
"""

__all__ = [
    "aggregate_columns",
    "checksums",
    "definition",
    "deletion",
    "fingerprint",
    "generation",
    "generation_names",
    "key_columns",
    "lookup",
    "manifest",
    "markers",
    "partition_conditions",
    "refresh_record",
    "roots",
    "schema_drift",
    "shard",
]
