"""Planning: from what the indexes say of a table's files to the cheapest strategy.

`index_choice` tells which index serves each column, or why none does. `planner` prices the strategies (`prices`)
by what each would read (`reads`). The result is a `plan`, a value.
"""

__all__ = ["index_choice", "plan", "planner", "prices", "reads", "reasons", "settings", "strategy"]
