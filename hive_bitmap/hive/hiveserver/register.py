"""Register an index in the metastore of a Hive server.

`register_index` registers an index that was exported for Hive 2, and then compares the number of rows that Hive sees
with the number of exported rows. `register` registers an index that was built elsewhere, by the definition in the
files of its folder.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, generation, generation_names, manifest
from hive_bitmap.core.index.definition import (
    POINTER,
    SEGMENT,
    Definition,
    from_properties,
    from_table,
    stored_columns,
    to_properties,
)
from hive_bitmap.core.table_info import NULL_PARTITION, Table, index_table_name, literal, quote
from hive_bitmap.errors import AlreadyExists, CorruptIndex, NotFound, ServerError, Unsupported
from hive_bitmap.hive.hive2.ddl import MARKER, HiveIndex, drop, statements
from hive_bitmap.hive.hiveserver import files, tables
from hive_bitmap.hive.hiveserver.connection import Server

LAST_WITH_INDEXES = 2
EMPTY_BITMAP = "ewah_bitmap_empty(array(0, 1, 4, 0, 0))"
log = logging.getLogger(__name__)
PARTITIONS_AT_ONCE = 100  # partitions added by one statement


def register_index(server: Server, index: HiveIndex) -> None:
    """Register an exported index with the server.

    An earlier export of the index is replaced. Raises Unsupported if the server does not support indexes or has no
    JavaEWAH, or if the server's base table is not the indexed table. Raises AlreadyExists if another table has the name
    of the index table. Raises NotFound if the base table is missing, or if Hive does not see all index rows. Raises
    ServerError.
    """
    _require_indexes(server)
    _require_same_table(server, index)
    if _exported_before(server, index):
        server.all(drop(index))
    for statement in statements(index):
        server.all(statement)
    _require_all_rows(server, index)


def _require_indexes(server: Server) -> None:
    version = str(server.all("SELECT version()")[0][0]).split(" ")[0]
    major = re.match(r"\d+", version)
    if major is None or int(major[0]) > LAST_WITH_INDEXES:
        raise Unsupported(
            f"{server.name} is version {version}, but only Hive up to 2.3 has indexes; "
            "hive-bitmap --hiveserver2 queries the index of hive_bitmap through any server"
        )
    try:
        server.all(f"SELECT {EMPTY_BITMAP}")
    except ServerError as e:
        raise Unsupported(
            f"{server.name} cannot read bitmaps: put JavaEWAH-0.3.2.jar (com.googlecode.javaewah) into its lib folder "
            f"and restart it ({e})"
        ) from e


def _require_same_table(server: Server, index: HiveIndex) -> None:
    """Raise Unsupported if the server's table differs from the indexed table.

    Columns, partitions and folders are compared. Hive reads only files that the index names, so queries with an index
    of other files would lose all rows.
    """
    base = tables.describe(server, index.definition.full_table)
    types = {column.name.lower(): column.type for column in base.columns}
    for column in index.definition.columns:
        server_type = types.get(column.name.lower())
        if server_type != column.type:
            raise Unsupported(
                f"column {column.name!r} of {base.full_name} is {server_type} in {server.name}, not {column.type}"
            )
    parted = [column.name.lower() for column in base.partition_columns]
    if parted != [column.name.lower() for column in index.partition_columns]:
        raise Unsupported(f"{base.full_name} is partitioned by {', '.join(parted) or 'nothing'} in {server.name}")
    for partition in index.partitions:
        folder = _location(server, base, partition.values)
        if folder != partition.base:
            raise Unsupported(f"{base.full_name} has its files in {folder} in {server.name}, not in {partition.base}")


def _location(server: Server, base: Table, values: tuple[str, ...]) -> str:
    if not values:
        return base.location
    partition_values = tuple(None if value == NULL_PARTITION else value for value in values)
    return tables.partition(server, base, partition_values).location


def _exported_before(server: Server, index: HiveIndex) -> bool:
    """Return whether the server has an earlier export of the index.

    An earlier export is a table named `index.index_table`. Raises AlreadyExists if a table of this name is something
    else.
    """
    try:
        existing = tables.describe(server, f"{quote(index.definition.database)}.{quote(index.index_table)}")
    except NotFound:
        return False
    if existing.properties.get(MARKER) != index.source:
        raise AlreadyExists(
            f"table {existing.full_name} exists in {server.name} and is not an export of {index.source}: "
            "drop it there, or give another --name"
        )
    return True


def _require_all_rows(server: Server, index: HiveIndex) -> None:
    """Drop the index and raise NotFound unless Hive sees all index rows.

    Queries that use an index with missing rows would lose rows of the base table.
    """
    table = f"{quote(index.definition.database)}.{quote(index.index_table)}"
    server.all("SET hive.compute.query.using.stats=false")
    seen = server.all(f"SELECT count(*) FROM {table}")[0][0]
    if seen != index.rows:
        server.all(drop(index))
        raise NotFound(
            f"{server.name} sees {seen} of {index.rows} index rows in {index.root}: it must read that folder"
        )


def register(server: Server, root: str, index_table: str | None = None) -> Definition:
    """Create or replace the index table of an index that was built elsewhere.

    `root` is the folder with the generations of the index. All complete segments in this folder that were not replaced
    are used. `index_table` is the name of the index table: `table`, in the database of the base table, or
    `database.table`. None stands for the default name, in the database where the index table was when the index was
    built. Raises NotFound if the folder has no complete segment or the base table is missing. Raises AlreadyExists if a
    table with this name does not belong to this index. Raises Unsupported for Spark's Thrift Server, if the index was
    built in another folder, or if the index does not fit the base table. Raises CorruptIndex if the definition of the
    index is damaged, and ServerError.
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

    The index table has a slot for each of the segments. Raises the errors of `register`.
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
    """Return the definition in the newest segment of a folder.

    Raises NotFound without a segment, CorruptIndex for a damaged definition, and Unsupported if the index was built in
    another folder.
    """
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
    """Return the complete segments of a folder that were not replaced, oldest first."""
    segments = []
    for name in sorted(e.name for e in files.entries(server, root) or [] if generation_names.is_generation(e.name)):
        names = {entry.name for entry in files.entries(server, f"{root}/{name}") or []}
        if generation.RETIRED in names or checksums.FOLDER not in names:
            continue
        listed = files.entries(server, f"{root}/{name}/{checksums.FOLDER}") or []
        if any(entry.name == manifest.SHARDS_NAME for entry in listed):
            segments.append(f"{root}/{name}")
    return segments


def _drop_registered(server: Server, definition: Definition) -> None:
    """Drop the index table of an earlier registration, if there is one.

    Only an EXTERNAL table is dropped, so its files stay. Raises AlreadyExists if a table of this name is not EXTERNAL
    or does not belong to this index.
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

    Keys that are columns of the base table have the current types of these columns.
    """
    types = {column.name: column.type for column in base.columns}
    keys = [Column(column.name, types[column.name.lower()]) for column in definition.plain_columns]
    keys += [expression.stored for expression in definition.expressions]
    properties = ", ".join(f"{literal(k)}={literal(v)}" for k, v in to_properties(definition).items())
    return (
        f"CREATE EXTERNAL TABLE {definition.sql_name} ({_columns([*keys, *stored_columns(definition)])})"
        f" PARTITIONED BY ({_columns([SEGMENT])}) STORED AS PARQUET LOCATION {literal(definition.root)}"
        f" TBLPROPERTIES ({properties})"
    )


def _columns(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quote(column.name)} {column.type}" for column in columns)
