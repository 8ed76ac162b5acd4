"""The optimizer rule by which plain Spark queries use bitmap indexes.

Everything that depends on Spark's internals is in this package, in Java (`java/`) and py4j. `enabling` switches the
rule on for a session, `scanning` has the entry points of a query, `explanation` reports what the rule did to one,
`sql_text` runs SQL text with it, and `extension_jar` is the jar of the Java half.
"""

__all__ = ["enabling", "explanation", "extension_jar", "scanning", "sql_text"]
