"""Build indexes: plan a build, run its job, publish the result.

`build` has the entry points, and `preview` says what a rebuild would do. `build_scope` plans. `file_groups` divides
the files among jobs, whose tasks read base files and write shards (`core/indexing`). `staging` has Spark read what
tasks cannot read. `publish` makes new segments visible.
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
