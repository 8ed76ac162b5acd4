"""The life of an index that is built: its state, other names and properties, dropping it, and cleaning up.

An entry point a module. What they change is a metastore's entry first, and files after that.
"""

__all__ = ["alter", "clean", "drop", "show"]
