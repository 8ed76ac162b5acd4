"""Build indexes: plan a build, run its job, publish the result.

`build` has the entry points. The tasks of the Spark job read base files and write shards (`core/indexing`). `preview`
reports what a rebuild would do.
"""

__all__ = [
    "build",
    "build_scope",
    "file_groups",
    "key_expressions",
    "preview",
    "progress",
    "publish",
    "staging",
]
