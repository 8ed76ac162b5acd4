"""Advise on indexes.

It proposes a set to create for the queries so far, and lists unused indexes. The set is what the queries would have
gained most from. `observed` reads what the optimizer rule has recorded of the queries, `useful_columns` determines the
columns that could serve them, and `gains` what an index on these would save, at the planner's prices. `index_set`
chooses, `advise` combines the results, and `proposals` is the advice as a value, as text and as HTML.
"""

__all__ = ["advise", "proposals"]
