"""Audit shards: compare them with their base files by rows and keys."""

__all__ = ["audit", "base_file_check", "compare", "stored_shard"]
