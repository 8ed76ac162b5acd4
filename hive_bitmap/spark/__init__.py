"""Do everything that needs Spark.

This package reads tables in Spark's metastore, builds indexes in its jobs, and answers its queries with them.
"""
