"""Parse index statements in Hive's and openLooKeng's dialects.

`parse` parses text to the values in `statements`. `script` splits scripts into statements.
"""

__all__ = ["parse", "script", "statements", "where"]
