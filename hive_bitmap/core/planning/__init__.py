"""Choose the cheapest strategy for a query of an indexed table.

`index_choice` picks the index of each column, and gives the reason where there is none. `planner` prices the strategies
(`prices`) by what each would read. The result is a `plan`, a value.
"""

__all__ = ["index_choice", "plan", "planner", "prices", "settings", "strategy"]
