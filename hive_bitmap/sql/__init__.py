"""Index statements of Hive's and openLooKeng's dialects, and a Spark SQL data source.

`parse` parses text to the values in `statements`, without Spark; `commands` executes them. `script` splits scripts into
statements. `datasource` implements `USING hive_bitmap`.
"""

__all__ = ["commands", "datasource", "parse", "script", "statements"]
