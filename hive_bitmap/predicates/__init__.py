"""Predicates: a small tree in three-valued logic, and its leaves evaluated over arrays of keys.

Spark gives the tree of a condition (`catalyst/conditions`), or a text is parsed to one (`hiveserver/parser`). A leaf
that is not on an allowlist becomes one that only Spark evaluates, or Unknown. No module here needs an index or a Spark
session, but for `spark_conditions`, which filters a DataFrame.
"""

__all__ = ["matching", "nodes", "spark_conditions", "tokens"]
