"""What an index would take and be good for, before it is built: a sample of its blocks is indexed and scaled up.

`estimate` is the entry point; samples are taken and measured by Spark tasks.
"""

__all__ = ["estimate"]
