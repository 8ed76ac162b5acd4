"""Choose the cheapest strategy for a query of an indexed table.

`index_choice` chooses the index of each column, or gives the reason why none serves it. `planner` computes the price of
each strategy (`prices`) from what it would read, and makes the `plan`.
"""

__all__ = ["index_choice", "plan", "planner", "prices", "settings", "strategy"]
