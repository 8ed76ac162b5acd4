"""Plan a scan of Spark from its indexes.

`prepare` takes a `request` through all steps; `snapshot` reads the current state of the table and its indexes,
`index_lookup` looks up each file in the indexes. No row of the base table is read here.
"""

__all__ = [
    "index_lookup",
    "prepare",
    "request",
    "snapshot",
    "spark_leaves",
    "spark_only",
    "table_state",
]
