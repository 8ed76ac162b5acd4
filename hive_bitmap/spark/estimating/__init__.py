"""Estimating the size and usefulness of an index before it is built, from a sample of blocks.

`estimate` is the entry point. Tasks of Spark index the sampled blocks and measure the result.
"""

__all__ = ["estimate", "extrapolate"]
