"""Verify an index against its base table: all rows, keys, bitmaps and checksums.

`verify` is the entry point; a Spark task compares one shard with its base files.
"""

__all__ = ["verify"]
