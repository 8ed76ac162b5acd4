"""Estimate the size and usefulness of an index from sampled blocks."""

__all__ = ["extrapolate", "sampling", "verdict"]
