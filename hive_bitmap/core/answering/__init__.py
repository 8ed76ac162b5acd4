"""Answer counts of rows from the index alone.

They are counted in shards, in total or by key. `count_budget` and `answer_size` estimate what a count would read and
hold before it begins; `tally` counts.
"""

__all__ = ["answer_size", "count_budget", "extremes", "tally"]
