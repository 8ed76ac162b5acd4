"""Advice on indexes: a set that the queries so far would have gained most from, and those that none has used.

`observed` reads what the optimizer rule has recorded of the queries, `useful_columns` says which columns could serve
them, `gains` what that would save, at the planner's prices. `index_set` chooses, `advise` puts it together, and
`proposals` is what is advised, as a value, as text and as HTML.
"""

__all__ = ["advise", "proposals"]
