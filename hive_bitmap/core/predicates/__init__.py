"""Predicates: trees of conditions in three-valued logic.

The leaves of a predicate are evaluated over arrays of keys. Spark gives the tree of a condition
(`catalyst/scans`), or a text is parsed to a tree (`hiveserver/parser`). A leaf that is not on an allowlist becomes
a leaf that only Spark evaluates, or Unknown. All conditions in texts have one grammar, `condition_grammar`, with a
table of its dialects.
"""

__all__ = ["condition_grammar", "nodes", "tokens"]
