"""Estimate the size and usefulness of an index before a build.

A sample of blocks is indexed. `estimate` is the entry point. Spark tasks index the sampled blocks and measure the
result.
"""

__all__ = ["estimate"]
