"""Advice on indexes: which ones the queries so far would have gained most from, and which ones none has used.

`observed` reads what the optimizer rule has recorded of the queries, `useful_columns` says which columns could serve
them, `gains` what that would save, at the planner's prices, and `advise` puts it together.
"""

__all__ = ["advise"]
