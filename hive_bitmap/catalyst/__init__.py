"""The optimizer rule by which plain Spark queries use bitmap indexes.

Everything that depends on Spark's internals is in this package, in Java (`java/`) and py4j. `enabling` switches the
rule on for a session, `explanation` reports what it did to a query, and `sql_text` runs SQL text with it.
"""

__all__ = ["enabling", "explanation", "sql_text"]
