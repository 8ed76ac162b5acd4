"""The room selecting."""
