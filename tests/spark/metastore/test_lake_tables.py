"""What the log of a Delta or Iceberg table says, as a table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.listings.file_listing import format_of
from hive_bitmap.core.table_info import Lake, Table
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import lake_tables

TABLE = Table(database="d", name="t", kind="MANAGED", provider="delta", location="file:/w/t")


def facts(**changed: Any) -> dict[str, Any]:
    names = {"delta.columnMapping.id": 4, "delta.columnMapping.physicalName": "col-4"}
    same = {**names, "delta.columnMapping.physicalName": "p"}
    fields = [
        {"name": "k", "type": "integer", "nullable": True, "metadata": names},
        {"name": "p", "type": "string", "nullable": True, "metadata": same},
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"schema": schema, "partitioned_by": ["p"], "mapping": "none", "features": [], **changed}


def described(**changed: Any) -> Table:
    properties = {"a": "b", lake_tables.FACTS: json.dumps(facts(**changed))}
    return lake_tables.described(Table(**{**vars(TABLE), "properties": properties}))


@pytest.mark.parametrize(
    ("mapping", "columns"),
    [
        ("none", (Column("k", "int"), Column("p", "string"))),
        ("name", (Column("k", "int", file_name="col-4"), Column("p", "string"))),
        ("id", (Column("k", "int", file_name="col-4", field_id=4), Column("p", "string", field_id=4))),
    ],
)
def test_columns_are_named_as_in_files(mapping: str, columns: tuple[Column, ...]) -> None:
    table = described(mapping=mapping)
    assert (table.columns, table.partition_columns, table.properties) == (columns, (), {"a": "b"})
    assert table.lake == Lake("delta", ("p",))
    assert format_of(table) == "parquet"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"features": ["deletionVectors", "variantType"]}, "has the table feature variantType, which is not supported"),
        ({"mapping": "colour"}, "maps its columns by colour"),
        ({"schema": json.dumps({"type": "struct", "fields": []})}, "has no columns"),
        (
            {
                "schema": json.dumps(
                    {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": True, "metadata": {}}]}
                ),
                "mapping": "name",
            },
            "its log lacks the names of columns in files",
        ),
    ],
)
def test_what_is_not_known_is_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        format_of(described(**changed))


def test_without_facts_a_delta_table_is_refused_and_others_are_as_they_are() -> None:
    assert lake_tables.described(TABLE) == TABLE
    with pytest.raises(Unsupported, match="is delta: its files do not show its current rows"):
        format_of(TABLE)
    plain = Table(**{**vars(TABLE), "provider": "parquet", "properties": {lake_tables.FACTS: json.dumps(facts())}})
    assert lake_tables.described(plain) == plain


ICEBERG = Table(
    database="d",
    name="t",
    kind="EXTERNAL",
    provider="iceberg",
    location="file:/w/t",
    catalog="lake",
    columns=(Column("k", "int"), Column("p", "string"), Column("n", "bigint")),
)
FIELDS = [
    {"id": 1, "name": "k", "required": False, "type": "int"},
    {"id": 2, "name": "p", "required": False, "type": "string"},
    {"id": 5, "name": "n", "required": False, "type": "long", "initial-default": 7},
]
SPECS = [
    {"spec-id": 0, "fields": [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]},
    {"spec-id": 1, "fields": [{"name": "k_bucket", "transform": "bucket[4]", "source-id": 1, "field-id": 1001}]},
]


def described_iceberg(**changed: Any) -> Table:
    schema = json.dumps({"type": "struct", "schema-id": 0, "fields": changed.pop("fields", FIELDS)})
    facts = {"schema": schema, "specs": list(map(json.dumps, SPECS)), "format": "parquet", "version": "2", **changed}
    return lake_tables.described(Table(**{**vars(ICEBERG), "properties": {lake_tables.FACTS: json.dumps(facts)}}))


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_columns_of_iceberg_have_ids_and_only_identity_takes_their_values_from_the_log(format: str) -> None:
    table = described_iceberg(format=format)
    assert table.columns == (
        Column("k", "int", field_id=1),
        Column("p", "string", field_id=2),
        Column("n", "bigint", default=True, field_id=5),
    )
    assert table.lake == Lake("iceberg", ("p",), format=format)
    assert (format_of(table), table.full_name, table.properties) == (format, "lake.d.t", {})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"version": "4"}, "has format version 4, which is not supported"),
        ({"format": "avro"}, "is written as avro"),
        ({"fields": FIELDS[:2]}, "lacks the field ids"),
        ({"fields": []}, "lacks the field ids"),
    ],
)
def test_iceberg_tables_that_are_not_known_have_no_indexes(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        format_of(described_iceberg(**changed))


@pytest.mark.parametrize(
    ("properties", "provider", "wanted"),
    [({}, "iceberg", True), ({"table_type": "ICEBERG"}, "hive", True), ({"table_type": "x"}, "hive", False)],
)
def test_what_the_metastore_calls_iceberg(properties: dict[str, str], provider: str, wanted: bool) -> None:
    assert lake_tables.is_iceberg(Table(**{**vars(TABLE), "properties": properties, "provider": provider})) == wanted
