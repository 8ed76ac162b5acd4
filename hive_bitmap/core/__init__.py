"""The floor without Spark: indexes, their storage, lookups and plans.

It defines what an index is, how it is stored and looked up, and what to do with the result. No module here imports
PySpark or starts a JVM, also for types. The same code runs in the driver, in Spark's tasks, and beside a Hive server.
"""
