"""What a condition says: from SQL text to a small tree in three-valued logic, and keys tested against its leaves.

`parser` makes the tree of `nodes`; what is not on an allowlist becomes a leaf that only Spark evaluates. No index and
no Spark session is needed for that: `spark_conditions` alone has Spark look at a condition.
"""

__all__ = ["matching", "nodes", "parser", "spark_conditions", "tokens"]
