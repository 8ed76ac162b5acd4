"""Indexes in the form of Hive 0.8 to 2.3's own: the files of its index tables, and the DDL that registers them.

`export` writes them from an index of ours, `ddl` has the statements.
"""

__all__ = ["ddl", "export"]
