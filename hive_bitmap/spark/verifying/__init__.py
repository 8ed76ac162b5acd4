"""Verify an index against its base table.

All rows, keys, bitmaps and checksums are compared. `verify` is the entry point; a Spark task compares one shard with
its base files.
"""

__all__ = ["verify"]
