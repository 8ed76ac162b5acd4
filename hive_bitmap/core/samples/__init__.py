"""Sample blocks of a table, and estimate the size and usefulness of an index from them."""

__all__ = ["extrapolate", "sampling", "verdict"]
