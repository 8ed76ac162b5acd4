"""The part that needs Spark: tables in its metastore, builds as jobs, queries with indexes."""
