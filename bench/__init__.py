"""Side by side with Spark and DuckDB, in one run over the same files: `python -m bench --help`."""
