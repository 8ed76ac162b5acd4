"""Maintenance of existing indexes: showing their state, altering, attaching and dropping them, and cleaning up.

Each module has one entry point or a few. They change the metastore first, and delete files after that.
"""

__all__ = ["alter", "attach", "clean", "drop", "show"]
