"""Execute CREATE INDEX.

In Hive the name of an index is unique in its table, in openLooKeng in the whole database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.core.columns import KeyExpression
from hive_bitmap.core.grammar.statements import CreateIndex, Dialect, Where
from hive_bitmap.core.index.definition import OWN_PROPERTIES, REFRESH_INTERVAL, Definition, flag
from hive_bitmap.core.index.key_columns import require_keys
from hive_bitmap.core.listings.file_listing import format_of
from hive_bitmap.core.table_info import SESSION_CATALOG, Table
from hive_bitmap.errors import AlreadyExists, InvalidProperty, Unsupported
from hive_bitmap.spark.building import build, key_expressions
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.maintaining import alter
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.registry.coverage import covered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Reserved by TableCatalog.java of Spark 4 (ALTER TABLE does not set them), and EXTERNAL, reserved by Hive.
RESERVED = ("location", "provider", "owner", "external", "is_managed_location")


def create(spark: SparkSession, statement: CreateIndex) -> list[BuildReport]:
    """Build the index of a statement.

    If an openLooKeng index of the same name exists, extend this index to more partitions instead. Return the report of
    the build; the list is empty if there was nothing to do. Raises the errors of `build`, and AlreadyExists where
    openLooKeng raises an error.
    """
    metastore.require_hive(spark)
    base = metastore.describe(spark, statement.table.sql_name)
    format_of(base)  # refuses a view, whose columns may be unknown and would be reported missing otherwise
    statement = replace(statement, columns=tuple(key_expressions.resolved(spark, base, statement.columns)))
    require_keys(base, [key for key in statement.columns if isinstance(key, str)])
    require_partition_columns(base, statement.where)
    if statement.dialect is Dialect.OPENLOOKENG:
        existing = catalog.indexes_on_tables_of(spark, base.database)
        if not is_name_free(existing, base, statement):
            return _extend(spark, existing, base, statement)
    index_table = statement.index_table
    if index_table is not None and index_table.foreign:
        raise Unsupported(f"index table {index_table} must be in {SESSION_CATALOG}: leave out {index_table.catalog}")
    properties = dict(statement.properties)
    enabled = flag("enabled", properties.get("enabled", "true"))
    _require_unreserved(statement)
    reports = build.build(
        spark,
        base.spark_name,
        [list(statement.columns)],
        name=statement.name,
        type=statement.type,
        encoding=properties.get("encoding", "gap"),
        compression=properties.get("compression", "zstd"),
        index_table=None if index_table is None else str(replace(index_table, catalog="")),
        location=statement.location,
        comment=statement.comment or properties.get("comment", ""),
        deferred=statement.deferred,
        where=statement.where.sql if statement.where else None,
        if_not_exists=statement.if_not_exists,
        auto_refresh=flag("auto_refresh", properties["auto_refresh"]) if "auto_refresh" in properties else None,
        refresh_interval=properties.get("refresh_interval", REFRESH_INTERVAL),
        keep_removed=properties.get("keep_removed", ""),
        aggregates=properties.get("aggregates", ""),
        properties={key: value for key, value in properties.items() if key not in OWN_PROPERTIES},
    )
    for report in reports:
        if statement.table_properties:
            definition = report.definition
            created_table = Table(
                database=definition.index_table_database, name=definition.index_table, kind="EXTERNAL"
            )
            alter_table.set_properties(spark, created_table, dict(statement.table_properties))
        if not enabled:
            alter.set_properties(spark, base.spark_name, statement.name, {"enabled": "false"})
    return reports


def _require_unreserved(statement: CreateIndex) -> None:
    """Raise InvalidProperty for a table property that Spark reserves.

    Otherwise, Spark would refuse the property only after the build.
    """
    for key, _ in statement.table_properties:
        if key.lower() in RESERVED:
            raise InvalidProperty(f"table property {key!r} is reserved: leave it out, Spark sets it")


def require_partition_columns(base: Table, where: Where | None) -> None:
    """Raise Unsupported if a condition names a column other than partition columns.

    `where` is None if the statement has no condition.
    """
    partition_columns = [column.name.lower() for column in base.partition_columns]
    for name in where.columns if where else ():
        if name.lower() not in partition_columns:
            raise Unsupported(
                f"WHERE tests column {name!r}, which does not partition table {base.full_name}; partition columns: "
                f"{', '.join(partition_columns) or 'none'}"
            )


def is_name_free(indexes: Sequence[Index], base: Table, statement: CreateIndex) -> bool:
    """Return whether no index of the database has the statement's name.

    Raise AlreadyExists if the name is free, but an index of another name has the same table, columns and type;
    openLooKeng does so, too.
    """
    if any(index.definition.name == statement.name for index in indexes):
        return False
    for index in indexes:
        if same_content(index.definition, base, statement):
            raise AlreadyExists(f"index {index.definition.name} has the same table, columns and type")
    return True


def _extend(spark: SparkSession, existing: list[Index], base: Table, statement: CreateIndex) -> list[BuildReport]:
    """Extend the index that a statement names to the partitions of its WHERE.

    `existing` are the indexes on all tables of the database. An index cannot be extended if it differs from the
    statement in table, columns or type, if the index or the statement has no WHERE, or if the index already covers one
    of the partitions. Then AlreadyExists is raised, or with IF NOT EXISTS the index stays unchanged.
    """
    reason = f"index {statement.name} already exists"
    for index in existing:
        before, where = index.definition, statement.where
        if before.name != statement.name or not same_content(before, base, statement):
            continue
        if before.where and where:
            values = [partition.values for partition in metastore.partitions(spark, base)]
            pairs = zip(
                covered(spark, base, before.where, values), covered(spark, base, where.sql, values), strict=True
            )
            if not any(old and new for old, new in pairs):
                return alter.extend(spark, base.spark_name, before.name, where.sql)
        if before.where or where:
            reason = f"index {statement.name} already covers some of these partitions"
    if not statement.if_not_exists:
        raise AlreadyExists(reason)
    return []


def same_content(definition: Definition, base: Table, statement: CreateIndex) -> bool:
    """Return whether an index has the content of a statement's index.

    Table and type must be equal. The columns must be equal too, but may be in another order.
    """
    columns = {key.name if isinstance(key, KeyExpression) else str(key).lower() for key in statement.columns}
    return definition.is_on(base) and definition.type == statement.type and definition.lower_key_names == columns
