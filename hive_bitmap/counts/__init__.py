"""The room counts."""
