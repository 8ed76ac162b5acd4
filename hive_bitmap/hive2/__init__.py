"""The room hive2."""
