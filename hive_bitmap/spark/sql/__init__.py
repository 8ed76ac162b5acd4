"""Index statements of Hive's and openLooKeng's dialects.

`parse` parses text to the values in `statements`, without Spark; `commands` executes them. `script` splits scripts into
statements.
"""

__all__ = ["commands", "parse", "script", "statements"]
