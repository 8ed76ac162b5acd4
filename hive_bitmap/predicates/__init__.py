"""The room predicates."""
