"""Plan a scan of Spark from its indexes.

The module `prepare` takes a request (`request`) through all steps. The module `snapshot` reads the current state of the
table and its indexes. `index_lookup` looks up each file in the indexes, and has Spark evaluate the leaves that only
Spark can evaluate. `spark_only` leaves to Spark what only Spark can read. No row of
the base table is read here.
"""

__all__ = [
    "index_lookup",
    "prepare",
    "request",
    "snapshot",
    "spark_only",
]
