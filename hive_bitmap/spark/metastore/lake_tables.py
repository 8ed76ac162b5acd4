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

DELTA = "delta"
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
_PHYSICAL_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a snapshot of a Delta log says of a table: its schema as JSON, and how the names in files are found."""

    schema: str
    partitioned_by: tuple[str, ...]
    mapping: str
    features: tuple[str, ...]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Facts:
        """Return the facts in a JSON object of the JVM (`DeltaFiles.java`)."""
        return cls(
            schema=fields["schema"],
            partitioned_by=tuple(fields["partitioned_by"]),
            mapping=fields["mapping"],
            features=tuple(fields["features"]),
        )


def described(table: Table) -> Table:
    """Return a Delta table as the facts in its description say, if they are there; any other table as it is."""
    if table.provider.lower() != DELTA or FACTS not in table.properties:
        return table
    properties = {key: value for key, value in table.properties.items() if key != FACTS}
    return by_facts(replace(table, properties=properties), Facts.of(json.loads(table.properties[FACTS])))


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
        lake=Lake(DELTA, facts.partitioned_by, _problem(facts, mapped)),
    )


def unreadable(table: Table, why: str) -> Table:
    """Return a Delta table whose log cannot be read."""
    return replace(table, lake=Lake(DELTA, problem=why))


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
