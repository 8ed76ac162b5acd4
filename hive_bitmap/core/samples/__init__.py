"""Sample blocks of a table, and extrapolate to the size and usefulness of an index."""

__all__ = ["extrapolate", "sampling", "verdict"]
