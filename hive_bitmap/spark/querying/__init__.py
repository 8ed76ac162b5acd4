"""Query a table by Python functions.

Each function makes a Spark DataFrame, and the optimizer rule plans the DataFrame. So functions, plain SQL and
DataFrames get the same decision on the same scan, and Spark's checks, caches and authorizers apply to all of them.
"""

__all__ = ["offsets_file", "scanning"]
