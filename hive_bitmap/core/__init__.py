"""The floor without Spark: indexes, their storage, lookups and plans.

The floor defines what an index is, how an index is stored and looked up, and what to do with the result of a lookup. No
module of the floor imports PySpark or starts a JVM, not even for types. The same code runs in the driver, in Spark's
tasks, and beside a Hive server.
"""
