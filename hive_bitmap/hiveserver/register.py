"""Making an index that was built elsewhere known to this server's metastore: its folder says what it is."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hive_bitmap.columns import Column
from hive_bitmap.errors import AlreadyExists, CorruptIndex, NotFound, ServerError, Unsupported
from hive_bitmap.hiveserver import files, tables
from hive_bitmap.hiveserver.connection import Server
from hive_bitmap.index import generation
from hive_bitmap.index.definition import Definition, from_properties, from_table, stored_columns, to_properties
from hive_bitmap.metastore.table_info import Table, index_table_name, literal, quote

log = logging.getLogger(__name__)
PARTITIONS_AT_ONCE = 100  # added in one statement


def register(server: Server, root: str, index_table: str | None = None) -> Definition:
    """Create, or create anew, the index table of the index whose generations lie in the folder `root`.

    The newest complete generation of each partition counts. `index_table` is its name where that is not the usual one.
    Partitions of NULL are left out, with a warning, for Hive's ADD PARTITION does not take them.
    Raises NotFound for a folder without a generation and for a base table that is not there, AlreadyExists for a table
    of that name that is not of this index, Unsupported where index and base table do not fit, and ServerError.
    """
    if server.is_spark:
        raise Unsupported(
            "Spark's Thrift Server shows no folders: CREATE TABLE as docs/format.md says, or ask HiveServer2"
        )
    said = _definition(server, root.rstrip("/"))
    name = index_table or index_table_name(said.database, said.table, said.name)
    definition = replace(said, index_table=name.lower())
    base = tables.describe(server, definition.full_table)
    create_table(server, base, definition, _places(server, base, definition))
    return definition


def create_table(
    server: Server, base: Table, definition: Definition, places: Mapping[tuple[str | None, ...], str]
) -> None:
    """Create, or create anew, the index table of a definition; `places` has the generation of each partition, by its
    values. Raises what `register` does.
    """
    if why_not := tables.why_unusable(base, base, replace(definition, enabled=True)):
        raise Unsupported(why_not)
    _make_way(server, definition)
    where = definition.root if base.partition_columns else places[()]
    server.all(_create(base, definition, where))
    if base.partition_columns:
        _add_partitions(server, base, definition, places)


def _definition(server: Server, root: str) -> Definition:
    """What the newest generation in a folder, or in the partition folders below it, was built for."""
    folder: str | None = root
    while folder is not None:
        entries = files.entries(server, folder) or []
        if newest := _newest(server, folder, entries):
            break
        below = [entry.name for entry in entries if entry.is_folder and "=" in entry.name]
        folder = f"{folder}/{below[0]}" if below else None
    else:
        raise NotFound(f"the folder {root} holds no complete generation of an index, as far as {server.name} sees")
    try:
        said = json.loads("\n".join(files.lines(server, f"{newest}/{generation.MARKER}")))["definition"]
    except (ValueError, KeyError, TypeError, ServerError) as e:
        raise CorruptIndex(f"the folder {newest} does not say of which index it is: {e}") from e
    definition = from_properties(said)
    if definition is None:
        raise CorruptIndex(f"what {newest} says of its index was edited, or is of a later version")
    if not newest.startswith(f"{definition.root}/"):
        raise Unsupported(f"the index was built in {definition.root}, so name that folder, not {root}")
    return definition


def _newest(server: Server, folder: str, entries: Iterable[files.Entry]) -> str | None:
    """The newest generation that was published and not replaced; its name begins with the time of the build."""
    for name in sorted((e.name for e in entries if generation.is_generation(e.name)), reverse=True):
        names = {entry.name for entry in files.entries(server, f"{folder}/{name}") or []}
        inside = files.entries(server, f"{folder}/{name}/_manifest") if "_manifest" in names else None
        if generation.RETIRED not in names and any(entry.name == "shards.parquet" for entry in inside or []):
            return f"{folder}/{name}"
    return None


def _places(server: Server, base: Table, definition: Definition) -> dict[tuple[str | None, ...], str]:
    """The generation of each partition that the index covers."""
    columns = [column.name for column in base.partition_columns]
    found = {}
    for values in tables.partitions(server, base) if columns else [()]:
        folder = generation.partition_folder(definition.root, columns, values)
        newest = _newest(server, folder, files.entries(server, folder) or [])
        if newest is not None:
            found[values] = newest
    return found


def _make_way(server: Server, definition: Definition) -> None:
    """Drop the index table as it was registered before; its files stay, for it is EXTERNAL."""
    try:
        there = tables.describe(server, definition.sql_name)
    except NotFound:
        return
    known = from_table(there)
    if known is None or known.root != definition.root or there.kind != "EXTERNAL":
        raise AlreadyExists(f"table {there.full_name} exists, and is not of this index: give another --index-table")
    server.all(f"DROP TABLE {there.sql_name}")


def _create(base: Table, definition: Definition, location: str) -> str:
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
    server: Server, base: Table, definition: Definition, places: Mapping[tuple[str | None, ...], str]
) -> None:
    named = {values: folder for values, folder in places.items() if None not in values}
    if len(named) < len(places):
        log.warning("Hive adds no partition of NULL: %d of the index are left out", len(places) - len(named))
    specs = [
        f"PARTITION {tables.partition_spec(base, values)} LOCATION {literal(folder)}"
        for values, folder in named.items()
    ]
    for start in range(0, len(specs), PARTITIONS_AT_ONCE):
        some = " ".join(specs[start : start + PARTITIONS_AT_ONCE])
        server.all(f"ALTER TABLE {definition.sql_name} ADD IF NOT EXISTS {some}")
