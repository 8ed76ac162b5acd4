"""The floor that needs Spark: tables in its metastore, builds as its jobs, and its queries answered with an index."""
