"""Register an index that was built elsewhere in the server's metastore.

The files in the index's folder describe it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, generation, manifest
from hive_bitmap.core.index.definition import (
    POINTER,
    SEGMENT,
    Definition,
    from_properties,
    from_table,
    stored_columns,
    to_properties,
)
from hive_bitmap.core.table_info import Table, index_table_name, literal, quote
from hive_bitmap.errors import AlreadyExists, CorruptIndex, NotFound, ServerError, Unsupported
from hive_bitmap.hive.hiveserver import files, tables
from hive_bitmap.hive.hiveserver.connection import Server

log = logging.getLogger(__name__)
PARTITIONS_AT_ONCE = 100  # partitions added by one statement


def register(server: Server, root: str, index_table: str | None = None) -> Definition:
    """Create or replace the index table of an index.

    `root` is the folder with the generations of the index. All complete segments that were not replaced are used.
    `index_table` is the name of the index table, `table` or `database.table`; None for the default name, in the
    database in which the index was built. Raises NotFound if the folder has no generation or there is no base table,
    AlreadyExists if a table of that name does not belong to this index, Unsupported if the index does not fit the base
    table, and ServerError.
    """
    if server.is_spark:
        raise Unsupported(
            "Spark's Thrift Server cannot list folders: CREATE TABLE as docs/format.md says, or use HiveServer2"
        )
    stored = definition_in(server, root.rstrip("/"))
    definition = replace(stored, index_table=index_table_name(stored.database, stored.table, stored.name))
    if index_table:
        database, _, name = index_table.lower().rpartition(".")
        index_database = "" if database == stored.database else database
        definition = replace(stored, index_table=name, index_database=index_database)
    base = tables.describe(server, definition.full_table)
    create_table(server, base, definition, segments_in(server, definition.root))
    return definition


def create_table(server: Server, base: Table, definition: Definition, segments: Sequence[str]) -> None:
    """Create or replace the index table of a definition.

    It has a slot for each of these segments. Raises the errors of `register`.
    """
    if why_not := tables.why_unusable(base, replace(definition, enabled=True)):
        raise Unsupported(why_not)
    _drop_registered(server, definition)
    if definition.needs_pointer:
        _point_to(server, base, definition)
    server.all(create_statement(base, definition))
    specs = [
        f"PARTITION ({quote(SEGMENT.name)}={number}) LOCATION {literal(folder)}"
        for number, folder in enumerate(segments)
    ]
    for start in range(0, len(specs), PARTITIONS_AT_ONCE):
        added = " ".join(specs[start : start + PARTITIONS_AT_ONCE])
        server.all(f"ALTER TABLE {definition.sql_name} ADD IF NOT EXISTS {added}")


def definition_in(server: Server, root: str) -> Definition:
    """Return the definition in the newest segment of a folder."""
    segments = segments_in(server, root)
    if not segments:
        raise NotFound(f"folder {root} has no complete segment of an index that {server.name} can see")
    newest = segments[-1]
    try:
        properties = json.loads("\n".join(files.lines(server, f"{newest}/{generation.MARKER}")))["definition"]
    except (ValueError, KeyError, TypeError, ServerError) as e:
        raise CorruptIndex(f"the definition of the index in folder {newest} cannot be read: {e}") from e
    definition = from_properties(properties)
    if definition is None:
        raise CorruptIndex(f"the definition of the index in {newest} was edited, or is of a later version")
    if not newest.startswith(f"{definition.root}/"):
        raise Unsupported(f"the index was built in {definition.root}: name that folder, not {root}")
    return definition


def segments_in(server: Server, root: str) -> list[str]:
    """Return the segments of a folder, the oldest first.

    Incomplete and replaced segments are left out.
    """
    segments = []
    for name in sorted(e.name for e in files.entries(server, root) or [] if generation.is_generation(e.name)):
        names = {entry.name for entry in files.entries(server, f"{root}/{name}") or []}
        if generation.RETIRED in names or checksums.FOLDER not in names:
            continue
        listed = files.entries(server, f"{root}/{name}/{checksums.FOLDER}") or []
        if any(entry.name == manifest.SHARDS_NAME for entry in listed):
            segments.append(f"{root}/{name}")
    return segments


def _drop_registered(server: Server, definition: Definition) -> None:
    """Drop the index table of an earlier registration.

    It is EXTERNAL, so its files stay.
    """
    try:
        existing = tables.describe(server, definition.sql_name)
    except NotFound:
        return
    registered = from_table(existing)
    if registered is None or registered.root != definition.root or existing.kind != "EXTERNAL":
        raise AlreadyExists(
            f"table {existing.full_name} exists and does not belong to this index: give another --index-table"
        )
    server.all(f"DROP TABLE {existing.sql_name}")


def _point_to(server: Server, base: Table, definition: Definition) -> None:
    """Add an index table to the POINTER property of its base table."""
    before = {name for name in base.properties.get(POINTER, "").split(",") if name}
    if definition.pointer not in before:
        names = ",".join(sorted({*before, definition.pointer}))
        server.all(f"ALTER TABLE {base.sql_name} SET TBLPROPERTIES ({literal(POINTER)}={literal(names)})")


def create_statement(base: Table, definition: Definition) -> str:
    """Return the statement that creates the index table.

    Its types are the current ones of the base table.
    """
    types = {column.name: column.type for column in base.columns}
    keys = [Column(column.name, types[column.name.lower()]) for column in definition.columns]
    properties = ", ".join(f"{literal(k)}={literal(v)}" for k, v in to_properties(definition).items())
    return (
        f"CREATE EXTERNAL TABLE {definition.sql_name} ({_columns([*keys, *stored_columns(definition)])})"
        f" PARTITIONED BY ({_columns([SEGMENT])}) STORED AS PARQUET LOCATION {literal(definition.root)}"
        f" TBLPROPERTIES ({properties})"
    )


def _columns(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quote(column.name)} {column.type}" for column in columns)
