"""Registration of an index that was built elsewhere in the server's metastore, from the files in its folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, generation, manifest
from hive_bitmap.core.index.definition import Definition, from_properties, from_table, stored_columns, to_properties
from hive_bitmap.core.table_info import Table, index_table_name, literal, quote
from hive_bitmap.errors import AlreadyExists, CorruptIndex, NotFound, ServerError, Unsupported
from hive_bitmap.hive.hiveserver import files, tables
from hive_bitmap.hive.hiveserver.connection import Server

log = logging.getLogger(__name__)
PARTITIONS_AT_ONCE = 100  # added in one statement


def register(server: Server, root: str, index_table: str | None = None) -> Definition:
    """Create or replace the index table of the index whose generations are in the folder `root`.

    The newest complete generation of each partition is used. `index_table` is the name of the index table, None for the
    default. Partitions with a NULL value are left out with a warning, because Hive's ADD PARTITION does not accept
    NULL. Raises NotFound if the folder has no generation or there is no base table, AlreadyExists if a table of that
    name is not of this index, Unsupported if the index does not fit the base table, and ServerError.
    """
    if server.is_spark:
        raise Unsupported(
            "Spark's Thrift Server shows no folders: CREATE TABLE as docs/format.md says, or ask HiveServer2"
        )
    stored = definition_in(server, root.rstrip("/"))
    name = index_table or index_table_name(stored.database, stored.table, stored.name)
    definition = replace(stored, index_table=name.lower())
    base = tables.describe(server, definition.full_table)
    create_table(server, base, definition, _generations(server, base, definition))
    return definition


def create_table(
    server: Server, base: Table, definition: Definition, generation_folders: Mapping[tuple[str | None, ...], str]
) -> None:
    """Create or replace the index table of a definition.

    `generation_folders` has the folder of each partition's generation, by the values of the partition. Raises the
    errors of `register`.
    """
    if why_not := tables.why_unusable(base, base, replace(definition, enabled=True)):
        raise Unsupported(why_not)
    _drop_registered(server, definition)
    location = definition.root if base.partition_columns else generation_folders[()]
    server.all(create_statement(base, definition, location))
    if base.partition_columns:
        _add_partitions(server, base, definition, generation_folders)


def definition_in(server: Server, root: str) -> Definition:
    """Return the definition of the index, from the newest generation in a folder or in a partition folder below it."""
    folder: str | None = root
    while folder is not None:
        entries = files.entries(server, folder) or []
        if newest := newest_in(server, folder, entries):
            break
        below = [entry.name for entry in entries if entry.is_folder and "=" in entry.name]
        folder = f"{folder}/{below[0]}" if below else None
    else:
        raise NotFound(f"the folder {root} holds no complete generation of an index, as far as {server.name} sees")
    try:
        properties = json.loads("\n".join(files.lines(server, f"{newest}/{generation.MARKER}")))["definition"]
    except (ValueError, KeyError, TypeError, ServerError) as e:
        raise CorruptIndex(f"the folder {newest} does not say of which index it is: {e}") from e
    definition = from_properties(properties)
    if definition is None:
        raise CorruptIndex(f"what {newest} says of its index was edited, or is of a later version")
    if not newest.startswith(f"{definition.root}/"):
        raise Unsupported(f"the index was built in {definition.root}, so name that folder, not {root}")
    return definition


def newest_in(server: Server, folder: str, entries: Iterable[files.Entry]) -> str | None:
    """Return the newest generation in a folder that is complete and not replaced; names sort by time of build."""
    for name in sorted((e.name for e in entries if generation.is_generation(e.name)), reverse=True):
        names = {entry.name for entry in files.entries(server, f"{folder}/{name}") or []}
        if generation.RETIRED in names or checksums.FOLDER not in names:
            continue
        listed = files.entries(server, f"{folder}/{name}/{checksums.FOLDER}") or []
        if any(entry.name == manifest.SHARDS_NAME for entry in listed):
            return f"{folder}/{name}"
    return None


def _generations(server: Server, base: Table, definition: Definition) -> dict[tuple[str | None, ...], str]:
    """Return the folder of the newest generation of each partition that the index covers."""
    columns = [column.name for column in base.partition_columns]
    found = {}
    for values in tables.partitions(server, base) if columns else [()]:
        folder = generation.partition_folder(definition.root, columns, values)
        newest = newest_in(server, folder, files.entries(server, folder) or [])
        if newest is not None:
            found[values] = newest
    return found


def _drop_registered(server: Server, definition: Definition) -> None:
    """Drop the index table of an earlier registration; it is EXTERNAL, so its files stay."""
    try:
        there = tables.describe(server, definition.sql_name)
    except NotFound:
        return
    known = from_table(there)
    if known is None or known.root != definition.root or there.kind != "EXTERNAL":
        raise AlreadyExists(f"table {there.full_name} exists, and is not of this index: give another --index-table")
    server.all(f"DROP TABLE {there.sql_name}")


def create_statement(base: Table, definition: Definition, location: str) -> str:
    """Return the statement that makes the index table, with the types that the base table has now."""
    types = {column.name: column.type for column in base.columns}
    keys = [Column(column.name, types[column.name.lower()]) for column in definition.columns]
    properties = ", ".join(f"{literal(k)}={literal(v)}" for k, v in to_properties(definition).items())
    partitioned = f" PARTITIONED BY ({_columns(base.partition_columns)})" if base.partition_columns else ""
    return (
        f"CREATE EXTERNAL TABLE {definition.sql_name} ({_columns([*keys, *stored_columns(definition)])})"
        f"{partitioned} STORED AS PARQUET LOCATION {literal(location)} TBLPROPERTIES ({properties})"
    )


def _columns(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quote(column.name)} {column.type}" for column in columns)


def _add_partitions(
    server: Server, base: Table, definition: Definition, generation_folders: Mapping[tuple[str | None, ...], str]
) -> None:
    named = {values: folder for values, folder in generation_folders.items() if None not in values}
    if len(named) < len(generation_folders):
        left_out = len(generation_folders) - len(named)
        log.warning("Hive adds no partition of NULL: %d of the index are left out", left_out)
    specs = [
        f"PARTITION {tables.partition_spec(server, base, values)} LOCATION {literal(folder)}"
        for values, folder in named.items()
    ]
    for start in range(0, len(specs), PARTITIONS_AT_ONCE):
        added = " ".join(specs[start : start + PARTITIONS_AT_ONCE])
        server.all(f"ALTER TABLE {definition.sql_name} ADD IF NOT EXISTS {added}")
