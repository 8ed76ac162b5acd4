"""Choose the cheapest strategy for a query of an indexed table.

`index_choice` chooses the index of each column, or gives the reason why no index serves the column. `planner` computes
the price of each strategy (`prices`) from what the strategy would read, and makes the `plan`. `learnt_prices` adapts
the prices to the times of finished queries.
"""

__all__ = ["index_choice", "learnt_prices", "plan", "planner", "prices", "settings", "strategy"]
