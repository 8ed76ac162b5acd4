"""Sample blocks of a table, and estimate the size and the usefulness of an index from the sample."""

__all__ = ["extrapolate", "sampling", "verdict"]
