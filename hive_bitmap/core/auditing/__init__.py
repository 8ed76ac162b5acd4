"""Audit shards: compare them with their base files, row by row and key by key."""

__all__ = ["audit", "base_file_check", "compare", "stored_shard"]
