"""The room estimating."""
