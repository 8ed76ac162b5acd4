"""How tables drift away from the index that was built: columns of the base table, properties of the index table."""

from __future__ import annotations

from dataclasses import replace

from hive_bitmap.index import generation
from hive_bitmap.index.definition import Definition
from hive_bitmap.metastore.table_info import Table


def problem(base: Table, table: Table, definition: Definition) -> str:
    """Why an index, whose table is `table`, cannot serve its base table any more; empty where it can."""
    for column in definition.columns:
        if column not in base.columns:
            now = next((f"is {c.type}" for c in base.columns if c.name.lower() == column.name.lower()), "is gone")
            return (
                f"index {definition.name} is on {column.name} {column.type}, but in table {base.full_name} it {now}"
                ": drop the index and create it anew"
            )
    before, now_by = ([(c.name.lower(), c.type) for c in one.partition_columns] for one in (table, base))
    if before != now_by:
        by = ", ".join(name for name, _ in now_by) or "nothing"
        return f"table {base.full_name} is partitioned by {by} now: drop the index and create it anew"
    return ""


def written_definition(table: Table) -> Definition | None:
    """What the newest generation of an index table says that it was built for; None where none says it."""
    if not table.location:
        return None
    depth = len(table.partition_columns)
    folders = generation.below(table.location, depth) if depth else [table.location]
    newest = max(filter(generation.is_generation, folders), key=generation.built, default="")
    written = generation.definition_of(newest) if newest else None
    if written is None or written.database != table.database:
        return None
    return replace(written, index_table=table.name)
