"""Do what needs Spark: read its metastore, build indexes in its jobs, serve its queries."""
