"""The room verifying."""
