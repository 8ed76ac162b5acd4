"""Planning: from what the indexes say of a table's files to the cheapest strategy.

`planner` prices the strategies (`prices`). The result is a `plan`, a value.
"""

__all__ = ["plan", "planner", "prices", "reasons", "settings", "strategy"]
