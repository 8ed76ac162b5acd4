"""The room tasks."""
