"""The segments of an index: the slots that point at them, what they cover, and what a build does with them.

All of it is in arrays and pure, but for the folder of empty slots.
"""

__all__ = ["covered", "merging", "segment_plan", "slots"]
