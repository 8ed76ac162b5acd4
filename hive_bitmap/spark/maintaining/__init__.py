"""Maintain existing indexes: show, alter, attach, drop and clean up.

Each module has one entry point or a few. They change the metastore first, and delete files after that.
"""

__all__ = ["alter", "attach", "clean", "drop", "show"]
