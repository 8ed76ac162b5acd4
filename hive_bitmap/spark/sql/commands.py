"""Execute index statements with the functions of the Python API."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from hive_bitmap.core import table_info
from hive_bitmap.core.grammar.statements import (
    CreateIndex,
    DropDatabase,
    DropIndex,
    DropTable,
    RebuildIndex,
    RefreshIndex,
    RenameIndex,
    SetProperties,
    ShowIndexes,
    Spec,
    Statement,
    TableName,
    Where,
)
from hive_bitmap.core.index.definition import Definition, from_table
from hive_bitmap.core.table_info import SESSION_CATALOG, Table, in_spark
from hive_bitmap.errors import InvalidStatement, NotFound, PartitionNotFound, TableNotFound, Unsupported
from hive_bitmap.spark.building import build, publish
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.building.publish import IndexToDrop
from hive_bitmap.spark.maintaining import alter, drop
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index
from hive_bitmap.spark.registry.coverage import covered
from hive_bitmap.spark.sql.create import create, require_partition_columns
from hive_bitmap.spark.sql.show_index import (
    HIVE_COLUMNS,
    NOTHING_HELD,
    OPENLOOKENG_COLUMNS,
    RESULT_COLUMNS,
    Held,
    Row,
    built,
    held,
    hive_listing,
    openlookeng_listing,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTEGERS = ("tinyint", "smallint", "int", "bigint")


class IsIndexTable(Unsupported):
    """The error for a DROP TABLE of an index table.

    Only DROP INDEX can drop an index table.
    """


def run(spark: SparkSession, statement: Statement) -> DataFrame:
    """Execute a statement and return its result.

    SHOW INDEX returns the indexes. CREATE, REBUILD, REFRESH and DROP INDEX return what was done
    (`show_index.RESULT_COLUMNS`). All other statements return a DataFrame without columns. Raises the errors of the
    corresponding Python functions.
    """
    match statement:
        case CreateIndex():
            return _build_result(spark, built(create(spark, statement)))
        case RebuildIndex():
            return _build_result(spark, built(_rebuild(spark, statement)))
        case RefreshIndex():
            return _build_result(spark, _refresh(spark, statement))
        case SetProperties(name, _, properties):
            if table := _table_of(spark, statement):
                alter.set_properties(spark, table, name, dict(properties))
        case RenameIndex(name, new_name):
            if table := _table_of(spark, statement):
                alter.rename(spark, table, name, new_name)
        case DropIndex():
            return _build_result(spark, _drop(spark, statement))
        case ShowIndexes(table=None, name=name):
            return openlookeng_listing(spark, spark.catalog.currentDatabase(), name)
        case ShowIndexes(table=TableName() as table):
            return hive_listing(spark, table.sql_name)
        case DropTable():
            _drop_table(spark, statement)
        case DropDatabase():
            _drop_database(spark, statement)
    return spark.createDataFrame([], "")


def _build_result(spark: SparkSession, rows: list[Row]) -> DataFrame:
    schema = ", ".join(f"`{name}` {type}" for name, type in RESULT_COLUMNS)
    return spark.createDataFrame(rows, schema)


def columns(statement: Statement) -> tuple[tuple[str, str], ...]:
    """Return the names and types (string, bigint or double) of the result's columns."""
    match statement:
        case ShowIndexes(table=None):
            return tuple((name, "string") for name in OPENLOOKENG_COLUMNS)
        case ShowIndexes():
            return tuple((name, "string") for name in HIVE_COLUMNS)
        case CreateIndex() | RebuildIndex() | RefreshIndex() | DropIndex():
            return RESULT_COLUMNS
    return ()


def is_elsewhere(spark: SparkSession, statement: Statement) -> bool:
    """Return whether a statement concerns a catalog that cannot have indexes.

    A statement that names no catalog concerns the current catalog.
    """
    match statement:
        case DropDatabase(database, catalog=catalog):
            return not _is_own_catalog(spark, catalog or metastore.catalog_of(spark, database))
        case _ if statement.table:
            return not is_indexable(spark, statement.table)
    return not _is_own_catalog(spark, metastore.catalog_of(spark, ""))


def is_indexable(spark: SparkSession, table: TableName) -> bool:
    """Return whether a table is in a catalog whose tables may have indexes.

    The session catalog and catalogs of Iceberg are such catalogs.
    """
    catalog = table.catalog or metastore.catalog_of(spark, table.database)
    return _is_own_catalog(spark, catalog) or metastore.is_indexed_catalog(spark, catalog)


def _is_own_catalog(spark: SparkSession, catalog: str) -> bool:
    name = catalog.lower()
    return name == SESSION_CATALOG or (name == "hive" and _has_no_catalog(spark, name))


def _has_no_catalog(spark: SparkSession, name: str) -> bool:
    return spark.conf.get(f"spark.sql.catalog.{name}", None) is None


def _rebuild(spark: SparkSession, statement: RebuildIndex) -> list[BuildReport]:
    table = _table_of(spark, statement)
    if table is None:
        return []
    if statement.table is None and not spark.catalog.tableExists(table):
        shown = table.replace("`", "").removeprefix(f"{SESSION_CATALOG}.")
        raise TableNotFound(
            f"table {shown} of index {statement.name} no longer exists: run DROP INDEX {statement.name} ON {shown}"
        )
    partition = _canonical(metastore.describe(spark, table), statement.partition) if statement.partition else None
    return build.rebuild(spark, table, [statement.name], partition=partition)


def _refresh(spark: SparkSession, statement: RefreshIndex) -> list[Row]:
    """Refresh an index; return a row with the result.

    The row has the number of base files that were read, the rows and bytes of the whole index afterwards, and the
    seconds. Return no row if the statement has IF EXISTS and there is no such index.
    """
    table = _table_of(spark, statement)
    if table is None:
        return []
    rows = built(build.refresh(spark, table, [statement.name]))
    held_now = _held_by(spark, table, statement.name)
    return [(name, files, *held_now[1:], seconds) for name, files, _, _, seconds in rows]


def _canonical(base: Table, spec: Spec) -> dict[str, str | None]:
    """Return partition values as the metastore writes them.

    For example, 01 in an integer column becomes 1. `spec` has the columns and their values; None stands for NULL, in
    `spec` and in the result.
    """
    integers = [column.name.lower() for column in base.partition_columns if column.type in INTEGERS]
    return {
        name: str(int(value)) if name.lower() in integers and value and re.fullmatch("-?[0-9]+", value) else value
        for name, value in spec
    }


def _drop(spark: SparkSession, statement: DropIndex) -> list[Row]:
    """Drop an index or some of its partitions.

    Return a row with the numbers of base files and rows that the index no longer covers, the bytes that the index has
    lost, and the seconds. Return no row if the statement has IF EXISTS and there is no such index, or if another
    session has dropped it.
    """
    started, table = time.monotonic(), _table_of(spark, statement)
    if table is None:
        return []
    base, indexes = catalog.find_even_if_dropped(spark, table)
    if statement.where and base is not None:
        require_partition_columns(base, statement.where)
        _require_covered(spark, base, catalog.named(base, indexes, statement.name).definition, statement.where)
    held_before = next(
        (held(spark, index) for index in indexes if index.definition.name == statement.name), NOTHING_HELD
    )
    where = statement.where.sql if statement.where else None
    if not drop.drop(spark, table, statement.name, if_exists=statement.if_exists, where=where):
        return []  # another session has dropped the index
    held_after = _held_by(spark, table, statement.name)
    files, rows, bytes_ = (before - after for before, after in zip(held_before, held_after, strict=True))
    return [(statement.name, files, rows, bytes_, round(time.monotonic() - started, 3))]


def _held_by(spark: SparkSession, table: str, name: str) -> Held:
    matching = [index for index in _remaining_indexes(spark, table) if index.definition.name == name]
    return held(spark, matching[0]) if matching else NOTHING_HELD


def _remaining_indexes(spark: SparkSession, table: str) -> list[Index]:
    try:
        return catalog.find_even_if_dropped(spark, table)[1]
    except NotFound:  # the table was gone, and this was its last index
        return []


def _require_covered(spark: SparkSession, base: Table, definition: Definition, where: Where) -> None:
    """Raise PartitionNotFound if the index lacks some of the partitions to drop.

    `where` is the condition on these partitions. As in openLooKeng, a statement drops either all partitions of its
    condition or none.
    """
    if not definition.where:
        return
    partitions = [partition.values for partition in metastore.partitions(spark, base)]
    covered_flags, dropped_flags = (covered(spark, base, text, partitions) for text in (definition.where, where.sql))
    names = [column.name for column in base.partition_columns]
    missing = [
        table_info.partition_name(names, values)
        for values, is_covered, is_dropped in zip(partitions, covered_flags, dropped_flags, strict=True)
        if is_dropped and not is_covered
    ]
    if missing:
        raise PartitionNotFound(f"index {definition.name} does not cover partitions: {', '.join(missing)}")


def _table_of(
    spark: SparkSession, statement: RebuildIndex | RefreshIndex | SetProperties | RenameIndex | DropIndex
) -> str | None:
    """Return the SQL name of the table whose index a statement names.

    If there is no such index, return None for a statement with IF EXISTS, otherwise raise NotFound. Raises
    InvalidStatement if the statement names no table and several tables have an index of this name.
    """
    name = statement.name
    if statement.table is not None:
        table = statement.table.sql_name
        try:
            names = [index.definition.name for index in catalog.find_even_if_dropped(spark, table)[1]]
        except NotFound:
            if statement.if_exists:
                return None
            raise
        if name in names:
            return table
        missing = NotFound.of("index", name, names, f"table {statement.table}")
    else:
        database = spark.catalog.currentDatabase()
        definitions = [index.definition for index in catalog.indexes_on_tables_of(spark, database)]
        matching = [definition for definition in definitions if definition.name == name]
        if len(matching) == 1:
            return in_spark(matching[0].database, matching[0].table, catalog=matching[0].catalog)
        if matching:
            tables = ", ".join(definition.full_table.removeprefix(f"{database}.") for definition in matching)
            raise InvalidStatement(
                f"index {name} is on several tables of {database}: {tables}; add ON table after {name}"
            )
        missing = NotFound.of("index", name, [definition.name for definition in definitions], f"database {database}")
    if statement.if_exists:
        return None
    raise missing


def indexes_to_drop(spark: SparkSession, statement: DropTable | DropDatabase) -> list[IndexToDrop]:
    """Return the indexes that a statement is about to drop.

    DROP TABLE drops the indexes of the table. DROP DATABASE drops the indexes in the database and on its tables. Raise
    IsIndexTable if the table of the statement is an index table.
    """
    match statement:
        case DropTable():
            indexes = _indexes_of_table(spark, statement)
        case DropDatabase(name=name):
            exists = metastore.database_exists(spark, name)
            indexes = catalog.indexes_of_database(spark, name) if exists else []
    return [publish.index_to_drop(spark, index, indexes) for index in indexes]


def _drop_table(spark: SparkSession, statement: DropTable) -> None:
    """Drop a table with Spark's DROP TABLE, then its indexes.

    If Spark refuses, the indexes stay.
    """
    to_drop = indexes_to_drop(spark, statement)
    alter_table.drop_named(spark, statement.table.sql_name, if_exists=statement.if_exists, purge=statement.purge)
    drop.drop_after(spark, to_drop)


def _indexes_of_table(spark: SparkSession, statement: DropTable) -> list[Index]:
    name = statement.table.sql_name
    try:
        base, indexes = catalog.find_even_if_dropped(spark, name)
    except NotFound:
        return []  # Spark's DROP TABLE reports the missing table
    if base is not None and (definition := from_table(base)) is not None:
        if definition.full_index_table in _index_tables_of(spark, definition):
            raise IsIndexTable(f"table {base.full_name} is an index table: drop it with DROP INDEX")
        return []  # index statements cannot find this index: `clean` deletes its files
    return [] if base is not None and base.kind == "TEMPORARY" else indexes  # a view of that name has no index


def _index_tables_of(spark: SparkSession, definition: Definition) -> set[str]:
    """Return all index tables on the base table of an index.

    The base table may have been dropped.
    """
    base = in_spark(definition.database, definition.table, catalog=definition.catalog)
    definitions = [copy for index in _remaining_indexes(spark, base) for copy in (index.definition, *index.copies)]
    return {definition.full_index_table for definition in definitions}


def _drop_database(spark: SparkSession, statement: DropDatabase) -> None:
    """Drop a database with its index tables, then the files of these index tables.

    Spark leaves these files behind.
    """
    to_drop = indexes_to_drop(spark, statement)
    alter_table.drop_database(spark, statement.name, if_exists=statement.if_exists)
    drop.drop_after(spark, to_drop)
