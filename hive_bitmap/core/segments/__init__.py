"""The segments of an index: their slots, their contents, and their changes by builds.

Data is in arrays. All functions are pure, except for the function that makes the folder of empty slots.
"""

__all__ = ["covered", "merging", "segment_plan", "slots"]
