"""Whether an index says of its base table what is so: every row, key, bitmap and sum of it is compared.

`verify` is the entry point; a Spark task compares one shard with its base files.
"""

__all__ = ["verify"]
