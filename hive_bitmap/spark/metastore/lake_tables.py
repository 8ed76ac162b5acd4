"""Make a `Table` from the log of a Delta or Iceberg table.

The JVM reads facts from the log. `log_of` returns the module that reads columns and files from a log in Python. Only
known features are supported: if a table uses an unknown feature, Spark may read the table by other rules, so the
table cannot have indexes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import DELTA, ICEBERG, Lake, Table
from hive_bitmap.spark.metastore.protocol import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hive_bitmap.core.stores import FileStatus

ICEBERG_CATALOGS = ("org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog")
MOST_FILES = 1_000_000  # live files of an indexed table; the driver needs some 500 bytes for each of them
# The property by which the JVM adds the facts of a log to the description of a table, in questions of the rule.
FACTS = "hive_bitmap.facts_of_log"
# The supported reader features of Delta. With these, the rows of a file are the rows of the Parquet file, without those
# in its deletion vector.
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
# Supported versions of Iceberg's format, and file formats.
KNOWN_VERSIONS, KNOWN_FORMATS = ("1", "2", "3"), ("parquet", "orc")
_PHYSICAL_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts about a version of a Delta table, from its log.

    `schema` is the schema as JSON. `partitioned_by` are the names of the partition columns. `mapping` is the column
    mapping mode (`none`, `name` or `id`), and `features` are the table features of Delta. `past` says whether this is
    an older version of the table.
    """

    schema: str
    partitioned_by: tuple[str, ...]
    mapping: str
    features: tuple[str, ...]
    past: bool = False  # whether it is an older version

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Facts:
        """Parse the facts in a JSON object of the JVM (`DeltaFiles.java`)."""
        return cls(
            schema=fields["schema"],
            partitioned_by=tuple(fields["partitioned_by"]),
            mapping=fields["mapping"],
            features=tuple(fields["features"]),
            past=fields.get("past", False),
        )


@dataclass(frozen=True, kw_only=True)
class IcebergFacts:
    """The facts about a version of an Iceberg table, from its metadata.

    `schema` is Iceberg's JSON of the columns; `specs` has the JSON of each partition spec. `format` is the format of
    new files, `version` the version of the table format. `past` says whether this is an older version of the table, or
    a version in another branch than the main branch.
    """

    schema: str
    specs: tuple[str, ...]
    format: str
    version: str
    past: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> IcebergFacts:
        """Parse the facts in a JSON object of the JVM (`IcebergTables.java`)."""
        return cls(
            schema=fields["schema"],
            specs=tuple(fields["specs"]),
            format=fields["format"],
            version=fields["version"],
            past=fields.get("past", False),
        )


def described(table: Table) -> Table:
    """Return a table with the columns that its Delta or Iceberg log declares.

    The log's facts come in the property FACTS of the table's description. A table without facts is returned unchanged.
    """
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


class Log(Protocol):
    """A reader of the logs of one kind of lake tables."""

    def described(self, spark: SparkSession, table: Table) -> Table:
        """Return a table with the current columns in its log."""

    def live_files(self, spark: SparkSession, table: Table) -> tuple[FileStatus, ...]:
        """Return the current files of a table, sorted by path; raise Unsupported if they cannot be listed."""

    def removed_files(self, spark: SparkSession, table: Table, since: float) -> frozenset[str]:
        """Return the paths of the files removed since a time, in seconds since 1970; raise Unsupported."""


def log_of(kind: str) -> Log:
    """Return the module that reads the logs of lake tables, `delta_log` or `iceberg_log`.

    `kind` is DELTA or ICEBERG. The module is loaded at its first use.
    """
    log: Log = import_module(f"{__package__}.{kind}_log")
    return log


def kind_of(table: Table) -> str:
    """Return the kind of a table in the metastore: DELTA, ICEBERG, or "" for other tables."""
    if is_iceberg(table):
        return ICEBERG
    return DELTA if table.provider.lower() == DELTA else ""


def is_iceberg_catalog(spark: SparkSession, name: str) -> bool:
    """Return whether a catalog is an Iceberg catalog.

    `name` must not be the name of the session catalog.
    """
    return spark.conf.get(f"spark.sql.catalog.{name}", None) in ICEBERG_CATALOGS


def is_iceberg(table: Table) -> bool:
    """Return whether a table in the metastore is an Iceberg table."""
    properties = {key.lower(): value.lower() for key, value in table.properties.items()}
    return table.provider.lower() == ICEBERG or properties.get("table_type") == ICEBERG


def by_iceberg_facts(table: Table, facts: IcebergFacts) -> Table:
    """Return an Iceberg table with the columns and field ids that `facts` declare."""
    fields = {field["name"]: field for field in json.loads(facts.schema)["fields"]}
    identity = {
        field["source-id"]
        for spec in facts.specs
        for field in json.loads(spec)["fields"]
        if field["transform"] == "identity"
    }
    columns_with_id = [column for column in table.columns if isinstance(fields.get(column.name, {}).get("id"), int)]
    columns = tuple(
        replace(
            column,
            field_id=fields[column.name]["id"],
            default=column.default or fields[column.name].get("initial-default") is not None,
        )
        for column in columns_with_id
    )
    problem = ""
    if facts.version not in KNOWN_VERSIONS:
        problem = f"has format version {facts.version}, which is not supported"
    elif facts.format.lower() not in KNOWN_FORMATS:
        problem = f"is written as {facts.format}, but only parquet and orc are supported"
    elif not columns or len(columns) < len(table.columns):
        problem = "its metadata lacks the field ids of columns"
    partitioned_by = tuple(column.name for column in columns if column.field_id in identity)
    lake = Lake(ICEBERG, partitioned_by, problem, facts.format.lower(), facts.past)
    return replace(table, columns=columns, partition_columns=(), by_folders=False, lake=lake)


def by_facts(table: Table, facts: Facts) -> Table:
    """Return a Delta table with the columns that `facts`, from its log, declare."""
    schema = json.loads(facts.schema)
    columns = columns_of(schema)
    metadata = [field.get("metadata", {}) for field in schema["fields"]]
    mapped = tuple(
        _mapped(column, field_metadata, facts.mapping) for column, field_metadata in zip(columns, metadata, strict=True)
    )
    return replace(
        table,
        columns=tuple(column or plain for column, plain in zip(mapped, columns, strict=True)),
        partition_columns=(),
        by_folders=False,
        declared=facts.schema,
        lake=Lake(DELTA, facts.partitioned_by, _problem(facts, mapped), past=facts.past),
    )


def unreadable(table: Table, kind: str, error: Exception) -> Table:
    """Return a lake table that is marked as unreadable.

    `kind` is the name of the table's format, and `error` says why the table's log cannot be read.
    """
    return replace(table, lake=Lake(kind, problem=f"its log cannot be read: {sentence(error)}"))


def sentence(error: Exception) -> str:
    """Return the first line of an error, which may come from the JVM."""
    cause = getattr(error, "java_exception", None)
    return (str(error) if cause is None else str(cause.toString())).partition("\n")[0]


def _mapped(column: Column, metadata: Mapping[str, Any], mapping: str) -> Column | None:
    """Return a column with its name in files; None if this name is uncertain.

    `metadata` is the metadata of the column in Delta's schema, and `mapping` the column mapping mode of the table.
    """
    if mapping == "none":
        return column
    physical, id = metadata.get(_PHYSICAL_NAME), metadata.get(_ID)
    if not isinstance(physical, str) or (mapping == "id" and not isinstance(id, int)):
        return None
    mapped = replace(column, file_name="" if physical == column.name else physical)
    return replace(mapped, field_id=id) if mapping == "id" else mapped


def _problem(facts: Facts, mapped: Collection[Column | None]) -> str:
    unknown = sorted(set(facts.features) - KNOWN_FEATURES)
    if unknown:
        return f"has the table feature {unknown[0]}, which is not supported"
    if facts.mapping not in ("none", "name", "id"):
        return f"maps its columns by {facts.mapping}, which is not supported"
    if not mapped:
        return "its log has no columns"
    if None in mapped:
        return "its log lacks the names of columns in files"
    return ""
