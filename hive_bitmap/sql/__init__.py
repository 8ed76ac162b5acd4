"""Statements on indexes, Hive's and openLooKeng's: text to values without Spark, and values done by other rooms.

`parse` makes `statements` of text, `commands` has them done; `datasource` is the format `hive_bitmap` of Spark SQL.
"""

__all__ = ["commands", "datasource", "parse", "script", "statements"]
