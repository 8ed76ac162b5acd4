"""Store indexes, look them up and plan queries, without PySpark.

The packages define what an index is, how an index is stored and looked up, and what to do with the result of a lookup.
No module imports PySpark or starts a JVM, not even for types. The same code runs in the driver, in Spark's tasks, and
beside a Hive server.
"""
