"""Predicates: trees of conditions in three-valued logic.

Leaves are evaluated over arrays of keys. A tree comes from Spark (`catalyst/conditions`), or is parsed from text
(`hiveserver/parser`). A leaf that is not on an allowlist becomes a leaf that only Spark evaluates, or Unknown.
"""

__all__ = ["nodes", "tokens"]
