"""Plan a scan of Spark with indexes.

`prepare` carries out all steps for a request (`request`). `snapshot` reads the current state of the table and its
indexes. `index_lookup` evaluates the predicate in the indexes, and has Spark evaluate the leaves that only Spark can
evaluate. `spark_only` says which files and columns only Spark can read. No module reads rows of the base table.
"""

__all__ = [
    "index_lookup",
    "prepare",
    "request",
    "snapshot",
    "spark_only",
]
