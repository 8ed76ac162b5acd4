"""The functions of Python that query a table: each makes a DataFrame of Spark's, which the optimizer rule plans.

So a function, plain SQL and a DataFrame get the same decision on the same scan, and Spark's checks, caches and
authorizers see them all.
"""

__all__ = ["counting", "offsets_file", "scanning"]
