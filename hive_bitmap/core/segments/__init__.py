"""Plan the segments of an index: their contents, their slots, and what builds change.

Data is in arrays. All functions are pure, except for the function that makes the folder of empty slots.
"""

__all__ = ["covered", "merging", "segment_plan", "slots"]
