"""From statements to what they say: each is done through the Python functions of `index`, and answers with a frame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hive_bitmap.columns import find
from hive_bitmap.errors import AlreadyExists, InvalidStatement, NotFound, Unsupported
from hive_bitmap.index import alter, build, catalog, drop, metastore
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.coverage import covered
from hive_bitmap.index.definition import Definition, from_table
from hive_bitmap.index.metastore import Table, literal, quote
from hive_bitmap.sql.listing import hive_listing, openlookeng_listing
from hive_bitmap.sql.statements import (
    CreateIndex,
    Dialect,
    DropDatabase,
    DropIndex,
    DropTable,
    RebuildIndex,
    RenameIndex,
    SetProperties,
    ShowIndexes,
    Statement,
    TableName,
    Where,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAME_CONTENT = "Index with same (table,column,indexType) already exists"


def run(spark: SparkSession, statement: Statement) -> DataFrame:
    """Do what a statement says: a frame of indexes for SHOW INDEX, else one without columns.

    Raises what the functions of `index` raise; where the case is the same, in the words of Hive and openLooKeng.
    """
    match statement:
        case CreateIndex():
            _create(spark, statement)
        case RebuildIndex():
            _rebuild(spark, statement)
        case SetProperties(name, _, properties):
            if table := _table_of(spark, statement):
                alter.set_properties(spark, table, name, dict(properties))
        case RenameIndex(name, new_name):
            if table := _table_of(spark, statement):
                alter.rename(spark, table, name, new_name)
        case DropIndex():
            _drop(spark, statement)
        case ShowIndexes(table=None, name=name):
            return openlookeng_listing(spark, spark.catalog.currentDatabase(), name)
        case ShowIndexes(table=TableName() as table):
            return hive_listing(spark, sql_name(table))
        case DropTable():
            _drop_table(spark, statement)
        case DropDatabase():
            _drop_database(spark, statement)
    return spark.createDataFrame([], "")


def is_elsewhere(spark: SparkSession, statement: Statement) -> bool:
    """Whether a statement is about another catalog than the session's own, by its name or as the current one."""
    match statement:
        case DropDatabase(catalog=catalog):
            pass
        case _:
            catalog = statement.table.catalog if statement.table else ""
    catalog = (catalog or spark.catalog.currentCatalog()).lower()
    return catalog != "spark_catalog" and not (catalog == "hive" and _has_no_catalog(spark, catalog))


def sql_name(table: TableName) -> str:
    """A table's name as Spark reads it."""
    return ".".join(quote(part) for part in (table.database, table.name) if part)


def _has_no_catalog(spark: SparkSession, name: str) -> bool:
    return spark.conf.get(f"spark.sql.catalog.{name}", None) is None


def _create(spark: SparkSession, statement: CreateIndex) -> None:
    base = _base(spark, statement)
    _require_columns(base, statement)
    if statement.dialect is Dialect.OPENLOOKENG:
        existing = catalog.indexes_of_database(spark, base.database)
        if not _is_free(existing, base, statement):
            _merge(spark, existing, base, statement)
            return
    index_table = statement.index_table
    if index_table is not None and (index_table.database or base.database).lower() != base.database:
        raise Unsupported(
            f"Index on different database ({index_table.database}) from base table ({base.database}) is not supported."
        )
    properties = dict(statement.properties)
    reports = build.build(
        spark,
        base.sql_name,
        [list(statement.columns)],
        name=statement.name,
        type=statement.type,
        encoding=properties.get("encoding", "gap"),
        compression=properties.get("compression", "zstd"),
        index_table=None if index_table is None else index_table.name,
        location=statement.location,
        comment=statement.comment or properties.get("comment", ""),
        deferred=statement.deferred,
        where=statement.where.sql if statement.where else None,
        if_not_exists=statement.if_not_exists,
    )
    for report in reports:
        if statement.table_properties:
            pairs = ", ".join(f"{literal(key)}={literal(value)}" for key, value in statement.table_properties)
            spark.sql(f"ALTER TABLE {report.definition.sql_name} SET TBLPROPERTIES ({pairs})")
        if "enabled" in properties:
            alter.set_properties(spark, base.sql_name, statement.name, {"enabled": properties["enabled"]})


def _base(spark: SparkSession, statement: CreateIndex) -> Table:
    try:
        return metastore.describe(spark, sql_name(statement.table))
    except NotFound as e:
        if statement.dialect is Dialect.HIVE:
            raise
        raise NotFound(f"Table '{statement.table}' is invalid: {e}") from e


def _require_columns(base: Table, statement: CreateIndex) -> None:
    """Raise NotFound for a column that is not there, and Unsupported for WHERE on one that is no partition column."""
    for name in statement.columns:
        try:
            find((*base.columns, *base.partition_columns), name, f"table {base.full_name}")
        except NotFound as e:
            said = "Check the index columns, they should appear in the table being indexed."
            if statement.dialect is Dialect.OPENLOOKENG:
                said = f"Column '{name}' cannot be resolved:"
            raise NotFound(f"{said} {e}") from e
    _require_partition_columns(base, statement.where)


def _require_partition_columns(base: Table, where: Where | None) -> None:
    known = [column.name.lower() for column in base.partition_columns]
    for name in where.columns if where else ():
        if name.lower() not in known:
            raise Unsupported(
                "Heuristic index creation is only supported for predicates on partition columns: table "
                f"{base.full_name} has {', '.join(known) or 'none'}, and not {name}"
            )


def _is_free(existing: list[Index], base: Table, statement: CreateIndex) -> bool:
    """Whether no index of the database has the name, as openLooKeng has it; AlreadyExists if one has the content."""
    if any(index.definition.name == statement.name for index in existing):
        return False
    for index in existing:
        if _same_content(index.definition, base, statement):
            raise AlreadyExists(f"{_SAME_CONTENT}: it is '{index.definition.name}'")
    return True


def _merge(spark: SparkSession, existing: list[Index], base: Table, statement: CreateIndex) -> None:
    """Let the index of that name cover the partitions too, if it is the same but for them; else AlreadyExists."""
    said = f"Index '{statement.name}' already exists"
    for index in existing:
        before, where = index.definition, statement.where
        if before.name != statement.name or not _same_content(before, base, statement):
            continue
        if before.where and where:
            values = [partition.values for partition in metastore.partitions(spark, base)]
            pairs = zip(
                covered(spark, base, before.where, values), covered(spark, base, where.sql, values), strict=True
            )
            if not any(old and new for old, new in pairs):
                alter.extend(spark, base.sql_name, before.name, where.sql)
                return
        if before.where or where:
            said = f"{_SAME_CONTENT} and partition(s) contain conflicts"
    if not statement.if_not_exists:
        raise AlreadyExists(said)


def _same_content(definition: Definition, base: Table, statement: CreateIndex) -> bool:
    columns = {name.lower() for name in statement.columns}
    return (
        definition.table == base.name
        and definition.type == statement.type
        and {name.lower() for name in definition.column_names} == columns
    )


def _rebuild(spark: SparkSession, statement: RebuildIndex) -> None:
    table = _table_of(spark, statement)
    if table is None:
        return
    if statement.table is None and not spark.catalog.tableExists(table):
        raise NotFound(
            f"Unable to update index. Index table '{table.replace('`', '')}' may have been dropped from outside. "
            "Index should also be dropped."
        )
    build.rebuild(spark, table, [statement.name], partition=dict(statement.partition) or None)


def _drop(spark: SparkSession, statement: DropIndex) -> None:
    table = _table_of(spark, statement)
    if table is None:
        return
    if statement.where:
        _require_partition_columns(metastore.describe(spark, table), statement.where)
    drop.drop(spark, table, statement.name, where=statement.where.sql if statement.where else None)


def _table_of(spark: SparkSession, statement: RebuildIndex | SetProperties | RenameIndex | DropIndex) -> str | None:
    """The table of the index, as Spark reads its name; None where there is no such index and IF EXISTS was said."""
    name = statement.name
    if statement.table is not None:
        base, indexes = catalog.table_and_indexes(spark, sql_name(statement.table))
        if any(index.definition.name == name for index in indexes):
            return base.sql_name
        missing = NotFound.of("index", name, [i.definition.name for i in indexes], f"table {base.full_name}")
        said = f"Invalid index {name}: {missing}"
    else:
        database = spark.catalog.currentDatabase()
        found = [i.definition for i in catalog.indexes_of_database(spark, database) if i.definition.name == name]
        if len(found) == 1:
            return f"{quote(database)}.{quote(found[0].table)}"
        if found:
            tables = ", ".join(definition.table for definition in found)
            raise InvalidStatement(f"Index '{name}' is on several tables of {database}: {tables}; say {name} ON table")
        said = f"Index '{name}' does not exist"
    if statement.if_exists:
        return None
    raise NotFound(said)


def _drop_table(spark: SparkSession, statement: DropTable) -> None:
    """The indexes first, then the table, by Spark's own DROP TABLE; a temporary view of that name has no index."""
    name = sql_name(statement.table)
    try:
        base, indexes = catalog.table_and_indexes(spark, name)
    except NotFound:
        base, indexes = None, []  # Spark says what it says of a table that is not there
    if base is not None and from_table(base) is not None:
        raise Unsupported(f"The table {base.full_name} is an index table. Please do drop index instead.")
    if base is not None and base.kind != "TEMPORARY":
        for index in indexes:
            drop.drop(spark, base.sql_name, index.definition.name)
    exists, purge = "IF EXISTS " if statement.if_exists else "", " PURGE" if statement.purge else ""
    spark.sql(f"DROP TABLE {exists}{name}{purge}")


def _drop_database(spark: SparkSession, statement: DropDatabase) -> None:
    """The indexes with their files, which Spark would leave, then the database."""
    if spark.catalog.databaseExists(quote(statement.name)):
        for index in catalog.indexes_of_database(spark, statement.name):
            table = replace(TableName(index.definition.table), database=index.definition.database)
            drop.drop(spark, sql_name(table), index.definition.name)
    spark.sql(f"DROP DATABASE {'IF EXISTS ' if statement.if_exists else ''}{quote(statement.name)} CASCADE")
