"""Execute index statements of Hive's and openLooKeng's dialects, which `core/grammar` parses."""

__all__ = ["commands"]
