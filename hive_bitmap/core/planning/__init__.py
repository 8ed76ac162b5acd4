"""Planning: from what the indexes say of a table's files to the cheapest strategy.

`index_choice` tells which index serves each column, or why none does. `planner` prices the strategies (`prices`). The
result is a `plan`, a value.
"""

__all__ = ["index_choice", "plan", "planner", "prices", "reasons", "settings", "strategy"]
