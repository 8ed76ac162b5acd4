"""From a scan of Spark's to what the indexes say of it, and to its plan.

`prepare` takes a `request` through all steps; `snapshot` reads the current state of the table and its indexes,
`index_lookup` what the indexes say of each file.
No row of the base table is read here.
"""

__all__ = [
    "index_lookup",
    "prepare",
    "request",
    "snapshot",
    "spark_fallback",
    "spark_leaves",
    "spark_types",
    "table_state",
]
