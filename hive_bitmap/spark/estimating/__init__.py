"""Estimate the size and usefulness of an index before a build.

`estimate` is the entry point. Spark tasks index a sample of blocks and measure the result (`core/samples`).
"""

__all__ = ["estimate"]
