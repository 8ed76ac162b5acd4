"""Predicates: parsed from SQL text to a small tree in three-valued logic, and evaluated over arrays of keys.

`parser` builds the tree of `nodes`. A condition that is not on an allowlist becomes a leaf that only Spark can
evaluate. No module here needs an index or a Spark session, but for `spark_conditions`, which filters a DataFrame.
"""

__all__ = ["matching", "nodes", "parser", "spark_conditions", "tokens"]
