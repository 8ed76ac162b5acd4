"""The room explaining."""
