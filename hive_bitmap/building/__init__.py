"""Making indexes: what a build has to do, the Spark job that reads base files and writes shards, and publishing.

`build` has the entry points, `preview` says what they would do. A task indexes a group of files (`group_indexing`) or
compacts shards; other rooms sample, verify and export by the same parts.
"""

__all__ = [
    "build",
    "file_groups",
    "group_indexing",
    "preview",
    "progress",
    "publish",
    "shard_compaction",
    "staged_values",
    "staging",
]
