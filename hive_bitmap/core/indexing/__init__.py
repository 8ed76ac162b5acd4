"""Index base files: what a task of a build does.

A task indexes a group of base files (`group_indexing`) or compacts shards (`shard_compaction`). `staged_values` has the
values that Spark has read for it, `segment_change` makes a new segment of its shards.
"""

__all__ = ["group_indexing", "segment_change", "shard_compaction", "staged_values"]
