"""Check whether an index still fits its base table.

The base table and the index table may have changed since the index was built. Columns of the base table and properties
of the index table are checked.
"""

from __future__ import annotations

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import InvalidPredicate


def problem(base: Table, definition: Definition) -> str:
    """Return why an index no longer fits its base table.

    Return "" if the index fits.
    """
    if base.lake and base.lake.problem:
        return f"table {base.full_name} is {base.lake.kind}, and {base.lake.problem}"
    if definition.source != (base.lake.kind if base.lake else ""):
        kind = f"is {base.lake.kind} now" if base.lake else f"is no longer {definition.source}"
        return f"table {base.full_name} {kind}: drop index {definition.name} and create it again"
    expressions = (*definition.expressions, *definition.aggregated_expressions)
    if reserved := {c.name.lower() for c in base.columns}.intersection(e.name for e in expressions):
        return f"table {base.full_name} has a column {min(reserved)!r}, a name that is reserved: rename it"
    for column in definition.source_columns:
        if base.lake and column.name in base.lake.partitioned_by:
            return f"column {column.name} partitions table {base.full_name} now: drop index {definition.name}"
        if column not in base.columns:
            state = next((_state(c, column) for c in base.columns if c.name.lower() == column.name.lower()), "is gone")
            return (
                f"index {definition.name} is on {column.name} {column.type}, but in table {base.full_name} it {state}"
                ": drop the index and create it again"
            )
    by_now = (definition.partitioned_by, base.partition_columns)
    before, now = ([(c.name.lower(), c.type) for c in columns] for columns in by_now)
    if before != now and not definition.is_former:
        column_names = ", ".join(name for name, _ in now) or "nothing"
        return f"table {base.full_name} is partitioned by {column_names} now: drop the index and create it again"
    return _problem_of_where(base, definition)


def problem_of_spark(definition: Definition, spark: str) -> str:
    """Return why this version of Spark cannot use an index's computed keys.

    `spark` is the feature version of this Spark, such as `4.3`. Functions may return other values in another feature
    version. Return "" if this version has computed all keys.
    """
    for expression in definition.expressions:
        if expression.spark != spark:
            return (
                f"index {definition.name} has {expression.sql} as Spark {expression.spark} computes it, and this is "
                f"Spark {spark}: drop the index and create it again"
            )
    return ""


def _state(current: Column, indexed: Column) -> str:
    """Describe the column that has replaced an indexed column, for a message.

    `current` has the same name as the column `indexed`.
    """
    return f"is {current.type}" if current.type != indexed.type else "is another column of that name"


def _problem_of_where(base: Table, definition: Definition) -> str:
    """Return why an index's WHERE is not a condition on partition columns.

    Return "" if the WHERE is empty, or a condition on partition columns of the base table. Other programs may have
    written the WHERE.
    """
    if not definition.where:
        return ""
    from hive_bitmap.core.index.partition_conditions import parse  # loads the grammar of conditions

    try:
        parse(definition.where, base.partition_columns)
    except InvalidPredicate as e:
        return f"the WHERE of index {definition.name} is not accepted ({e}): drop the index and create it again"
    return ""
