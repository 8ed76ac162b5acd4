"""Describe tables, partitions and index tables through the server."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import unquote

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition, from_table, pointers
from hive_bitmap.core.index.schema_drift import problem
from hive_bitmap.core.table_info import NULL_PARTITION, Partition, Table, constant, literal, name_parts, quote
from hive_bitmap.errors import NotFound, ServerError
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.spark.metastore.jvm_settings import TRUSTED_OWNERS, TRUSTED_ROOTS
from hive_bitmap.spark.registry.trust import why_untrusted

KINDS = {"MANAGED_TABLE": "MANAGED", "EXTERNAL_TABLE": "EXTERNAL", "MANAGED": "MANAGED", "EXTERNAL": "EXTERNAL"}
# Headings of DESCRIBE FORMATTED, and the sections below them.
_SECTIONS = {
    "# col_name": "columns",
    "# Partition Information": "partition columns",
    "# Detailed Table Information": "details",
    "# Detailed Partition Information": "details",
    "# Storage Information": "details",
}
_LISTS = {"Table Parameters:": "properties", "Partition Parameters:": "properties", "Storage Desc Params:": "options"}


def describe(server: Server, name: str) -> Table:
    """Describe the table or view with a name like `t` or `db.t`.

    Raises NotFound if the table or its database does not exist, and ServerError.
    """
    database, table = _names(name)
    sql_name = f"{quote(database)}.{quote(table)}"
    try:
        rows = server.all(f"DESCRIBE FORMATTED {sql_name}")
    except ServerError as e:
        databases = [str(row[0]) for row in server.rows("SHOW DATABASES")]
        if database not in databases:
            raise NotFound.of("database", database, databases) from e
        names = _names_in(server, database)
        if table in names:
            raise
        raise NotFound.of("table", table, names, f"database {database}") from e
    sections = _sections(rows)
    if server.is_spark:
        sections["properties"] = dict(server.all(f"SHOW TBLPROPERTIES {sql_name}"))
    return _table(database, table, sections)


def index_tables(server: Server, base: Table) -> list[tuple[str, str]]:
    """Return the (database, name) of each possible index table of a table.

    A table is a possible index table if it has a default name of the table's index tables, or if the table's pointer
    property names it.
    """
    prefix = f"{base.database}__{base.name}_"  # SHOW TABLES gets no pattern: Hive 2 and 4 have different ones
    names = [name for name in _names_in(server, base.database) if name.startswith(prefix) and name.endswith("__")]
    by_name = [(base.database, name) for name in names]
    return by_name + sorted(pointers(base) - set(by_name))


def indexes(server: Server, base: Table) -> list[tuple[Table, Definition, str]]:
    """Return the index tables of a table with their definitions, sorted by index name.

    Each result is a tuple (index table, definition, reason). The reason says why the index cannot be used; it is "" for
    a usable index. Raises ServerError.
    """
    described = []
    for database, name in index_tables(server, base):
        try:
            table = describe(server, f"{quote(database)}.{quote(name)}")
        except NotFound:  # the pointer stays if another program drops the table
            continue
        definition = from_table(table)
        if definition is not None and definition.is_on(base):
            why = why_untrusted(base, table, definition, partial(_trust_settings, server))
            described.append((table, definition, why or why_unusable(base, definition)))
    return sorted(described, key=lambda entry: entry[1].name)


def _trust_settings(server: Server) -> dict[str, str]:
    """Return the server's settings on trusted owners and folders."""
    settings = {}
    for name in (TRUSTED_OWNERS, TRUSTED_ROOTS):
        line = "=".join(map(str, server.all(f"SET {name}")[0]))
        value = line.removeprefix(f"{name}=")
        if value not in (line, "<undefined>"):
            settings[name] = value
    return settings


def partitions(server: Server, table: Table) -> list[tuple[str | None, ...]]:
    """Return the values of each partition, with None for NULL.

    The values are in the order of the partition columns.
    """
    partition_values = []
    for (name,) in server.rows(f"SHOW PARTITIONS {table.sql_name}"):
        texts = [unquote(part.partition("=")[2]) for part in name.split("/")]
        partition_values.append(tuple(None if text == NULL_PARTITION else text for text in texts))
    return partition_values


def partition(server: Server, table: Table, values: tuple[str | None, ...]) -> Partition:
    """Describe an existing partition, given by its values.

    In `values`, None stands for NULL. Spark's Thrift Server shows only the folder of a partition. Raises ServerError.
    """
    described = server.all(f"DESCRIBE FORMATTED {table.sql_name} PARTITION {partition_spec(server, table, values)}")
    sections = _sections(described)
    details = sections["details"]
    return Partition(
        values=values,
        location=_location(details),
        input_format=details.get("InputFormat", ""),
        serde=details.get("SerDe Library", ""),
        properties=(*sections["properties"].items(), *sections["options"].items()),
    )


def partition_spec(server: Server, table: Table, values: Sequence[str | None]) -> str:
    """Return a partition spec, for example `(p='1', q='x')`; None stands for NULL.

    All values are written as strings, because servers accept strings for partition columns of any type.
    """
    written = constant if server.is_spark else literal
    pairs = (
        f"{quote(column.name)}={written(NULL_PARTITION if value is None else value)}"
        for column, value in zip(table.partition_columns, values, strict=True)
    )
    return f"({', '.join(pairs)})"


def _names_in(server: Server, database: str) -> list[str]:
    return [row[1 if server.is_spark else 0] for row in server.rows(f"SHOW TABLES IN {quote(database)}")]


def _names(name: str) -> tuple[str, str]:
    _, database, table = name_parts(name)
    return (database or "default").lower(), table.lower()


def why_unusable(base: Table, definition: Definition) -> str:
    """Return why an index cannot be used; "" for a usable index."""
    if not definition.enabled:
        return f"index {definition.name} is not enabled: set its property enabled to true"
    if definition.is_former:
        return f"index {definition.name} has format {definition.version}, which is no longer read: rebuild it"
    # Hive has all names in lower case.
    lower = tuple(Column(column.name.lower(), column.type) for column in definition.columns)
    by = tuple(Column(column.name.lower(), column.type) for column in definition.partitioned_by)
    expressions = tuple(
        replace(e, columns=tuple(replace(column, name=column.name.lower()) for column in e.columns))
        for e in definition.expressions
    )
    return problem(base, replace(definition, columns=lower, partitioned_by=by, expressions=expressions))


def _table(database: str, name: str, sections: dict[str, dict[str, str]]) -> Table:
    details, properties, by = sections["details"], sections["properties"], sections["partition columns"]
    return Table(
        database=database,
        name=name,
        kind=KINDS.get(details.get("Table Type") or details.get("Type", ""), "VIEW"),
        provider=details.get("Provider") or properties.get("spark.sql.sources.provider", "hive"),
        columns=tuple(Column(*pair) for pair in sections["columns"].items() if pair[0] not in by),
        partition_columns=tuple(Column(*pair) for pair in by.items()),
        location=_location(details),
        input_format=details.get("InputFormat", ""),
        serde=details.get("SerDe Library") or details.get("Serde Library", ""),
        properties=properties,
        options=sections["options"],
        owner=details.get("Owner", ""),
    )


def _sections(rows: Sequence[tuple[str | None, ...]]) -> dict[str, dict[str, str]]:
    """Return the rows of DESCRIBE FORMATTED by section.

    A section maps names to types, or keys to values. Hive prints a colon after a key. If a key occurs twice, the first
    value is taken, because Spark prints the location of a partition before the location of its table.
    """
    sections: dict[str, dict[str, str]] = {name: {} for name in (*_SECTIONS.values(), *_LISTS.values(), "other")}
    section = "columns"
    for row in rows:
        name, value, more = ((cell or "").strip() for cell in row)
        if name.startswith("#"):
            following = _SECTIONS.get(name, "other")
            # below the partition columns, `# col_name` is the header of their list
            section = section if following == "columns" and section == "partition columns" else following
        elif name in _LISTS:
            section = _LISTS[name]
        elif name.endswith(":") and section in _LISTS.values():
            section = "details"
            sections[section].setdefault(name.rstrip(":"), value)
        elif name:
            sections[section].setdefault(name if "columns" in section else name.rstrip(":"), value)
        elif value:
            sections[section][value] = _unescaped(more)
    return sections


def _unescaped(text: str) -> str:
    """Return the text of a property's value without Java's escapes."""
    try:
        value = json.loads(f'"{text}"')
    except ValueError:
        return text
    return str(value)


def _location(details: dict[str, str]) -> str:
    """Return a location as Hadoop's `Path.toString()` prints it.

    There is one slash after `file:`.
    """
    return re.sub(r"^file:/+", "file:/", details.get("Location", "")).rstrip("/")
