"""The floor without Spark: what an index is, how it is stored and looked up, and what to do with what it says.

No module here imports PySpark or starts a JVM, also for types. The same code runs in the driver, in Spark's tasks, and
beside a Hive server.
"""
