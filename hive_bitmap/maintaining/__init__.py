"""The room maintaining."""
