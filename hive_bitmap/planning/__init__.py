"""Planning: from a session, a table and a predicate to the cheapest strategy.

`prepare` serves all entry points; `snapshot` reads the current state of the table and its indexes, `planner` prices the
strategies. The result is a `plan`, a value. No row of the base table is read here.
"""

__all__ = [
    "answer_size",
    "count_budget",
    "plan",
    "planner",
    "prepare",
    "prices",
    "reasons",
    "request",
    "settings",
    "snapshot",
    "spark_fallback",
    "spark_leaves",
    "spark_types",
    "strategy",
    "table_state",
]
