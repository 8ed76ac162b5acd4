"""Query a table by Python functions.

Each function makes a DataFrame of Spark, which the optimizer rule plans. So functions, plain SQL and DataFrames get
the same decision on the same scan, and Spark's checks, caches and authorizers apply to all of them.
"""

__all__ = ["offsets_file", "scanning"]
