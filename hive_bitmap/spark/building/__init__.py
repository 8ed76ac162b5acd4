"""Build indexes: plan a build, run its job, publish the result.

The job of Spark reads base files and writes shards. `build` has the entry points; `preview` reports what a rebuild
would do. A task indexes a group of base files (`group_indexing`) or compacts shards (`shard_compaction`). `estimating`,
`verifying` and `hive2` use the same parts.
"""

__all__ = [
    "build",
    "build_scope",
    "file_groups",
    "group_indexing",
    "preview",
    "progress",
    "publish",
    "shard_compaction",
    "staged_values",
    "staging",
]
