"""The part that needs Spark.

It reads tables in Spark's metastore, builds indexes in its jobs, and answers its queries with them.
"""
