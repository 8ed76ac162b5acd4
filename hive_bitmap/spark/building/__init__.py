"""Build indexes: plan a build, run its job, publish the result.

The job of Spark reads base files and writes shards (`core/indexing`). `build` has the entry points; `preview` reports
what a rebuild would do.
"""

__all__ = [
    "build",
    "build_scope",
    "file_groups",
    "preview",
    "progress",
    "publish",
    "staging",
]
