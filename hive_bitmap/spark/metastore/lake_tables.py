"""Tables whose log tells their columns and files: what the JVM says of such a log, as a `Table`.

What is known is an allowlist. A table with a feature that is not on it has no indexes: it may be read by other rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Lake, Table
from hive_bitmap.spark.metastore.spark_schema import columns_of

DELTA, ICEBERG = "delta", "iceberg"
MOST_FILES = 1_000_000  # live files of a table that is indexed; the driver needs some 500 bytes for each of them
# The property, of the description of a table that a question of the rule has, in which the JVM puts a log's facts.
FACTS = "hive_bitmap.facts_of_log"
# Features of Delta that a reader must know, and under which a file has its rows in Parquet as they are, but for those
# that a deletion vector takes out.
KNOWN_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
# Versions of Iceberg's format, and formats of files in it, that are read as they are described.
KNOWN_VERSIONS, KNOWN_FORMATS = ("1", "2", "3"), ("parquet", "orc")
_PHYSICAL_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a snapshot of a Delta log says of a table: its schema as JSON, and how the names in files are found."""

    schema: str
    partitioned_by: tuple[str, ...]
    mapping: str
    features: tuple[str, ...]
    past: bool = False  # whether it is of a version of before

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Facts:
        """Return the facts in a JSON object of the JVM (`DeltaFiles.java`)."""
        return cls(
            schema=fields["schema"],
            partitioned_by=tuple(fields["partitioned_by"]),
            mapping=fields["mapping"],
            features=tuple(fields["features"]),
            past=fields.get("past", False),
        )


@dataclass(frozen=True, kw_only=True)
class IcebergFacts:
    """What Iceberg says of a version of a table: its schema and all its ways of partitioning, each as Iceberg's JSON.

    `format` is the format of new files, `version` that of the table's format. `past` says that the version of the table
    is one of before, or that of another branch than the main one.
    """

    schema: str
    specs: tuple[str, ...]
    format: str
    version: str
    past: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> IcebergFacts:
        """Return the facts in a JSON object of the JVM (`IcebergTables.java`)."""
        return cls(
            schema=fields["schema"],
            specs=tuple(fields["specs"]),
            format=fields["format"],
            version=fields["version"],
            past=fields.get("past", False),
        )


def described(table: Table) -> Table:
    """Return a table with a log as the facts in its description say, if they are there; any other table as it is."""
    if FACTS not in table.properties:
        return table
    properties = {key: value for key, value in table.properties.items() if key != FACTS}
    plain, fields = replace(table, properties=properties), json.loads(table.properties[FACTS])
    match table.provider.lower():
        case "delta":
            return by_facts(plain, Facts.of(fields))
        case "iceberg":
            return by_iceberg_facts(plain, IcebergFacts.of(fields))
    return table


def is_iceberg(table: Table) -> bool:
    """Return whether a table that the metastore describes is one of Iceberg."""
    properties = {key.lower(): value.lower() for key, value in table.properties.items()}
    return table.provider.lower() == ICEBERG or properties.get("table_type") == ICEBERG


def by_iceberg_facts(table: Table, facts: IcebergFacts) -> Table:
    """Return an Iceberg table, whose columns are those that Spark sees, with the ids by which files have them."""
    fields = {field["name"]: field for field in json.loads(facts.schema)["fields"]}
    identity = {
        field["source-id"]
        for spec in facts.specs
        for field in json.loads(spec)["fields"]
        if field["transform"] == "identity"
    }
    known = [column for column in table.columns if isinstance(fields.get(column.name, {}).get("id"), int)]
    columns = tuple(
        replace(
            column,
            field_id=fields[column.name]["id"],
            default=column.default or fields[column.name].get("initial-default") is not None,
        )
        for column in known
    )
    problem = ""
    if facts.version not in KNOWN_VERSIONS:
        problem = f"has version {facts.version} of that format, which is not known"
    elif facts.format.lower() not in KNOWN_FORMATS:
        problem = f"is written as {facts.format}: of its formats parquet and orc are indexed"
    elif not columns or len(columns) < len(table.columns):
        problem = "does not say which ids its columns have in files"
    partitioned_by = tuple(column.name for column in columns if column.field_id in identity)
    lake = Lake(ICEBERG, partitioned_by, problem, facts.format.lower(), facts.past)
    return replace(table, columns=columns, partition_columns=(), by_folders=False, lake=lake)


def by_facts(table: Table, facts: Facts) -> Table:
    """Return a Delta table with the columns that its log has."""
    schema = json.loads(facts.schema)
    columns = columns_of(schema)
    metadata = [field.get("metadata", {}) for field in schema["fields"]]
    mapped = tuple(_mapped(column, one, facts.mapping) for column, one in zip(columns, metadata, strict=True))
    return replace(
        table,
        columns=tuple(column or plain for column, plain in zip(mapped, columns, strict=True)),
        partition_columns=(),
        by_folders=False,
        declared=facts.schema,
        lake=Lake(DELTA, facts.partitioned_by, _problem(facts, mapped), past=facts.past),
    )


def unreadable(table: Table, kind: str, error: Exception) -> Table:
    """Return a table of this kind whose log cannot be read."""
    return replace(table, lake=Lake(kind, problem=f"its log cannot be read: {sentence(error)}"))


def sentence(error: Exception) -> str:
    """Return the first line of an error, which may be one of the JVM."""
    cause = getattr(error, "java_exception", None)
    return (str(error) if cause is None else str(cause.toString())).partition("\n")[0]


def _mapped(column: Column, metadata: Mapping[str, Any], mapping: str) -> Column | None:
    """Return a column with what it is called in files; None if that is not certain."""
    if mapping == "none":
        return column
    physical, id = metadata.get(_PHYSICAL_NAME), metadata.get(_ID)
    if not isinstance(physical, str) or (mapping == "id" and not isinstance(id, int)):
        return None
    named = replace(column, file_name="" if physical == column.name else physical)
    return replace(named, field_id=id) if mapping == "id" else named


def _problem(facts: Facts, mapped: Collection[Column | None]) -> str:
    unknown = sorted(set(facts.features) - KNOWN_FEATURES)
    if unknown:
        return f"has the table feature {unknown[0]}, which is not known"
    if facts.mapping not in ("none", "name", "id"):
        return f"maps its columns by {facts.mapping}, which is not known"
    if not mapped:
        return "its log has no columns"
    if None in mapped:
        return "does not say what its columns are called in files"
    return ""
