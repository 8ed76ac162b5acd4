"""Everything that needs Spark: read tables in its metastore, build indexes in its jobs, answer its queries."""
