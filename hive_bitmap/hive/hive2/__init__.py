"""Export an index as a native index of Hive 0.8 to 2.3.

`export` writes the files of Hive's index table. `ddl` writes the statements that register these files in Hive.
"""

__all__ = ["ddl", "export"]
