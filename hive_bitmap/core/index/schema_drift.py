"""Checks for changes made since an index was built: to columns of the base table, to properties of the index table."""

from __future__ import annotations

from dataclasses import replace

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.partition_conditions import parse
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import InvalidPredicate


def problem(base: Table, definition: Definition) -> str:
    """Return why an index no longer fits its base table; empty if it fits."""
    if base.lake and base.lake.problem:
        return f"table {base.full_name} is {base.lake.kind}, and {base.lake.problem}"
    if definition.source != (base.lake.kind if base.lake else ""):
        kind = f"is {base.lake.kind} now" if base.lake else f"is not {definition.source} any more"
        return f"table {base.full_name} {kind}: drop index {definition.name} and create it anew"
    for column in definition.columns:
        if base.lake and column.name in base.lake.partitioned_by:
            return f"column {column.name} partitions table {base.full_name} now: drop index {definition.name}"
        if column not in base.columns:
            state = next((_state(c, column) for c in base.columns if c.name.lower() == column.name.lower()), "is gone")
            return (
                f"index {definition.name} is on {column.name} {column.type}, but in table {base.full_name} it {state}"
                ": drop the index and create it anew"
            )
    by_now = (definition.partitioned_by, base.partition_columns)
    before, now = ([(c.name.lower(), c.type) for c in columns] for columns in by_now)
    if before != now and not definition.is_former:
        by = ", ".join(name for name, _ in now) or "nothing"
        return f"table {base.full_name} is partitioned by {by} now: drop the index and create it anew"
    return _problem_of_where(base, definition)


def _state(now: Column, indexed: Column) -> str:
    """Say what a column is now that has the name of an indexed one, but is not that column."""
    return f"is {now.type}" if now.type != indexed.type else "is another column of that name"


def _problem_of_where(base: Table, definition: Definition) -> str:
    """Return why the WHERE of an index, which others may have written, is no condition on the partition columns."""
    try:
        if definition.where:
            parse(definition.where, base.partition_columns)
    except InvalidPredicate as e:
        return f"the WHERE of index {definition.name} is not accepted ({e}): drop the index and create it anew"
    return ""


def written_definition(table: Table) -> Definition | None:
    """Return the definition recorded in the newest generation of an index table; None if there is none.

    The base table has the name in the marker of the root: it may have been renamed since.
    """
    if not table.location:
        return None
    folders = [table.location] if generation.is_generation(table.location) else generation.all_below(table.location)
    newest = max(folders, key=generation.build_time, default="")
    written = generation.definition_of(newest) if newest else None
    known = roots.owner(table.location) if written else None
    if written is not None and known is not None and known.id == written.id:
        written = replace(written, database=known.database, table=known.table)
    if written is None or written.index_table_database != table.database:
        return None
    return replace(written, index_table=table.name)
