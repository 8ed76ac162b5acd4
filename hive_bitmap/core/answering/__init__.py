"""Answers from the index alone: how many rows satisfy a predicate, in total or by key, counted in shards.

What a count would read and hold is estimated before it begins (`count_budget`, `answer_size`); `tally` counts.
"""

__all__ = ["answer_size", "count_budget", "extremes", "tally"]
