"""Answers from the index alone: counts of rows, in total or by key.

They are counted in shards. `count_budget` and `answer_size` estimate what a count would read and hold before it begins;
`tally` counts.
"""

__all__ = ["answer_size", "count_budget", "extremes", "tally"]
