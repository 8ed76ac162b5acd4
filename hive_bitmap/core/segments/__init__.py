"""The segments of an index: slots, contents, and changes by builds.

Everything is in arrays, and pure except for the folder of empty slots.
"""

__all__ = ["covered", "merging", "segment_plan", "slots"]
