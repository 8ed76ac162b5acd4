"""The room metastore."""
