"""The room building."""
