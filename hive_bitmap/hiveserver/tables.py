"""What the server says of tables: DESCRIBE FORMATTED, partitions, and the index tables of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import unquote

import sqlglot
from sqlglot import exp

from hive_bitmap.columns import Column
from hive_bitmap.errors import NotFound, ServerError
from hive_bitmap.hiveserver.connection import Server
from hive_bitmap.index.catalog import POINTER
from hive_bitmap.index.definition import Definition, from_table
from hive_bitmap.index.schema_drift import problem
from hive_bitmap.metastore.table_info import NULL_PARTITION, Partition, Table, literal, quote

KINDS = {"MANAGED_TABLE": "MANAGED", "EXTERNAL_TABLE": "EXTERNAL", "MANAGED": "MANAGED", "EXTERNAL": "EXTERNAL"}
_PARTS = {
    "# col_name": "columns",
    "# Partition Information": "partition columns",
    "# Detailed Table Information": "details",
    "# Detailed Partition Information": "details",
    "# Storage Information": "details",
}
_LISTS = {"Table Parameters:": "properties", "Partition Parameters:": "properties", "Storage Desc Params:": "options"}


def describe(server: Server, name: str) -> Table:
    """The table or view of that name, `t` or `db.t`. Raises NotFound for it or its database, ServerError."""
    database, table = _names(name)
    sql_name = f"{quote(database)}.{quote(table)}"
    try:
        rows = server.all(f"DESCRIBE FORMATTED {sql_name}")
    except ServerError as e:
        databases = [str(row[0]) for row in server.rows("SHOW DATABASES")]
        if database not in databases:
            raise NotFound.of("database", database, databases) from e
        known = _names_in(server, database)
        if table in known:
            raise
        raise NotFound.of("table", table, known, f"database {database}") from e
    said = _details(rows)
    if server.is_spark:
        said["properties"] = dict(server.all(f"SHOW TBLPROPERTIES {sql_name}"))
    return _table(database, table, said)


def index_tables(server: Server, base: Table) -> list[str]:
    """The names of the tables that are named like index tables of a table, and of those that it points at."""
    first = f"{base.database}__{base.name}_"  # Hive 2 and 4 have other patterns, so none is given
    names = [name for name in _names_in(server, base.database) if name.startswith(first) and name.endswith("__")]
    return names + [name for name in base.properties.get(POINTER, "").split(",") if name and name not in names]


def indexes(server: Server, base: Table) -> list[tuple[Table, Definition, str]]:
    """The index tables of a table, by the index's name: each with its definition, and why it cannot be used.

    The last is empty where it can. Raises ServerError.
    """
    found = []
    for name in index_tables(server, base):
        table = describe(server, f"{quote(base.database)}.{quote(name)}")
        definition = from_table(table)
        if definition is not None and definition.table == base.name:
            found.append((table, definition, why_unusable(base, table, definition)))
    return sorted(found, key=lambda one: one[1].name)


def partitions(server: Server, table: Table) -> list[tuple[str | None, ...]]:
    """The values of each partition, in the order of the partition columns; NULL is None."""
    found = []
    for (name,) in server.rows(f"SHOW PARTITIONS {table.sql_name}"):
        texts = [unquote(part.partition("=")[2]) for part in name.split("/")]
        found.append(tuple(None if text == NULL_PARTITION else text for text in texts))
    return found


def partition(server: Server, table: Table, values: tuple[str | None, ...]) -> Partition:
    """A partition, which must be there; of Spark's Thrift Server only its folder. Raises ServerError."""
    said = _details(server.all(f"DESCRIBE FORMATTED {table.sql_name} PARTITION {partition_spec(table, values)}"))
    details = said["details"]
    return Partition(
        values,
        _location(details),
        details.get("InputFormat", ""),
        details.get("SerDe Library", ""),
        (*said["properties"].items(), *said["options"].items()),
    )


def partition_spec(table: Table, values: Sequence[str | None]) -> str:
    """`(p='1', q='x')`, as Hive takes it for partition columns of any type."""
    pairs = (
        f"{quote(column.name)}={literal(NULL_PARTITION if value is None else value)}"
        for column, value in zip(table.partition_columns, values, strict=True)
    )
    return f"({', '.join(pairs)})"


def _names_in(server: Server, database: str) -> list[str]:
    return [row[1 if server.is_spark else 0] for row in server.rows(f"SHOW TABLES IN {quote(database)}")]


def _names(name: str) -> tuple[str, str]:
    try:
        table = exp.to_table(name, dialect="hive")
    except (sqlglot.errors.SqlglotError, ValueError) as e:
        raise NotFound(f"{name!r} is not a table name: use table or database.table") from e
    return (table.db or "default").lower(), table.name.lower()


def why_unusable(base: Table, table: Table, definition: Definition) -> str:
    """Why an index, whose table is `table`, cannot serve its base table here; empty where it can."""
    if not definition.enabled:
        return f"index {definition.name} is not enabled: set its property enabled to true"
    lower = tuple(Column(column.name.lower(), column.type) for column in definition.columns)  # as Hive has all names
    return problem(base, table, replace(definition, columns=lower))


def _table(database: str, name: str, said: dict[str, dict[str, str]]) -> Table:
    details, properties, by = said["details"], said["properties"], said["partition columns"]
    return Table(
        database,
        name,
        KINDS.get(details.get("Table Type") or details.get("Type", ""), "VIEW"),
        details.get("Provider") or properties.get("spark.sql.sources.provider", "hive"),
        tuple(Column(*pair) for pair in said["columns"].items() if pair[0] not in by),
        tuple(Column(*pair) for pair in by.items()),
        _location(details),
        details.get("InputFormat", ""),
        details.get("SerDe Library") or details.get("Serde Library", ""),
        properties,
        said["options"],
    )


def _details(rows: Sequence[tuple[str | None, ...]]) -> dict[str, dict[str, str]]:
    """The lines of DESCRIBE FORMATTED by the part that they stand in: names and types, or words and values.

    Hive has a colon behind the words. Where a word stands twice the first counts: Spark tells the table's folder behind
    that of a partition.
    """
    parts: dict[str, dict[str, str]] = {part: {} for part in (*_PARTS.values(), *_LISTS.values(), "other")}
    part = "columns"
    for row in rows:
        name, value, more = ((cell or "").strip() for cell in row)
        if name.startswith("#"):
            after = _PARTS.get(name, "other")
            part = part if after == "columns" and part == "partition columns" else after
        elif name in _LISTS:
            part = _LISTS[name]
        elif name.endswith(":") and part in _LISTS.values():
            part = "details"
            parts[part].setdefault(name.rstrip(":"), value)
        elif name:
            parts[part].setdefault(name if "columns" in part else name.rstrip(":"), value)
        elif value:
            parts[part][value] = _unescaped(more)
    return parts


def _unescaped(text: str) -> str:
    """A property as it is; the server prints it as Java would write it."""
    try:
        value = json.loads(f'"{text}"')
    except ValueError:
        return text
    return str(value)


def _location(details: dict[str, str]) -> str:
    """A folder as Hadoop's `Path.toString()` prints it: one slash after `file:`."""
    return re.sub(r"^file:/+", "file:/", details.get("Location", "")).rstrip("/")
