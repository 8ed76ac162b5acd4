"""Register an exported index in Hive 2.

It uses the HiveServer2, and checks what Hive sees.
"""

from __future__ import annotations

import re

from hive_bitmap.core.table_info import NULL_PARTITION, Table, quote
from hive_bitmap.errors import AlreadyExists, NotFound, ServerError, Unsupported
from hive_bitmap.hive.hive2.ddl import MARKER, HiveIndex, drop, statements
from hive_bitmap.hive.hiveserver import tables
from hive_bitmap.hive.hiveserver.connection import Server

LAST_WITH_INDEXES = 2
EMPTY_BITMAP = "ewah_bitmap_empty(array(0, 1, 4, 0, 0))"


def register_index(server: Server, index: HiveIndex) -> None:
    """Register an exported index with the server.

    It replaces an earlier export. Raises Unsupported if the server has no indexes or no JavaEWAH, or if its base table
    is not the one that was indexed; AlreadyExists if it has another table of the index table's name; NotFound; and
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
            "hive-bitmap --hiveserver2 uses ours through any server"
        )
    try:
        server.all(f"SELECT {EMPTY_BITMAP}")
    except ServerError as e:
        raise Unsupported(
            f"{server.name} cannot read bitmaps: put JavaEWAH-0.3.2.jar (com.googlecode.javaewah) into its lib folder "
            f"and restart it ({e})"
        ) from e


def _require_same_table(server: Server, index: HiveIndex) -> None:
    """Raise Unsupported if the server's table differs from the indexed one.

    Its columns, partitions and folders are compared. Hive reads only files that the index names, so with an index of
    other files, queries would lose all rows.
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
    """Return whether the server has an earlier export of that name.

    Raises AlreadyExists for any other table.
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
    """Raise NotFound if Hive does not see all index rows.

    The index is then dropped. Otherwise queries would lose rows.
    """
    table = f"{quote(index.definition.database)}.{quote(index.index_table)}"
    server.all("SET hive.compute.query.using.stats=false")
    seen = server.all(f"SELECT count(*) FROM {table}")[0][0]
    if seen != index.rows:
        server.all(drop(index))
        raise NotFound(
            f"{server.name} sees {seen} of {index.rows} index rows in {index.root}: it must read that folder"
        )
