"""Index base files: the work of the tasks of a build.

A task indexes a group of base files (`group_indexing`) or compacts shards (`shard_compaction`). `staged_values` reads
values that Spark has prepared for a task, and `computed_keys` reads the keys that Spark has computed for a task.
`segment_change` assembles a new segment from unchanged shards and from the shards that tasks have written.
"""

__all__ = ["computed_keys", "group_indexing", "segment_change", "shard_compaction", "staged_values"]
