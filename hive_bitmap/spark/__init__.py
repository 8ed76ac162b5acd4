"""Everything that needs Spark.

Read tables in its metastore, build indexes in its jobs, answer its queries.
"""
