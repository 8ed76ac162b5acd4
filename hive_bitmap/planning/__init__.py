"""From a session, a table and a condition to a plan: what there is, what the index says, and the cheapest strategy.

`prepare` does it for all entry points; `snapshot` has the table and its indexes as they are now, `planner` prices the
strategies. Nothing of the base table's rows is read here.
"""

__all__ = [
    "count_budget",
    "planner",
    "prepare",
    "prices",
    "request",
    "settings",
    "snapshot",
    "spark_fallback",
    "spark_leaves",
    "spark_types",
    "table_state",
]
