"""Optimize plain Spark queries with bitmap indexes.

The optimizer rule and everything else that depends on Spark's internals is here. The Java half is in the checkout's
folder `jvm/`; this package reaches it by py4j (`spark/jvm_bridge`). `enabling` switches the rule on for a session,
`explanation` describes what the rule did to a query, and `sql_text` runs SQL text with the rule.
"""

__all__ = [
    "decision",
    "enabling",
    "execution",
    "explanation",
    "sql_text",
]
