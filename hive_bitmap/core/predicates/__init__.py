"""Represent predicates as trees of conditions in three-valued logic, and parse conditions.

The leaves of a predicate are evaluated over arrays of keys. Spark sends the tree of a condition (`catalyst/scans`), or
a text is parsed to a tree (`hiveserver/parser`). A leaf that is not on an allowlist becomes a leaf that only Spark
evaluates, or Unknown. `condition_grammar` is the grammar of all conditions in texts, with their dialects.
"""

__all__ = ["condition_grammar", "nodes", "tokens"]
