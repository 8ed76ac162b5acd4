"""Explain why a query reads a table without its indexes.

Indexes may belong to the table's former name, or to a table whose folder is read by its path. Hints are computed only
when a query is explained, because they need all index tables of a database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.table_info import Table, index_table_name, raw_hadoop_path
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_INDEXES = 1000  # most indexes of a database that are examined


def of_former_name(spark: SparkSession, table: str) -> str:
    """Return a hint if `table` may be a renamed table that had an index.

    There is a hint if the base table of some index is missing, and `table` has all columns of that index. The hint
    names the missing table and how to attach the index. Return "" if there is no such index.
    """
    try:
        base = metastore.describe(spark, table)
    except (NotFound, Unsupported):
        return ""
    pointed = catalog.among(catalog.with_pointed(spark, (), [base]))
    candidates = [*_definitions(spark, base.database), *(index.definition for index in pointed)]
    definitions = [definition for definition in candidates if definition.database == base.database]
    table_names = sorted({definition.table for definition in definitions})
    existing = {table_.name for table_ in metastore.describe_many(spark, base.database, table_names)}
    orphans = [
        definition
        for definition in definitions
        if definition.table not in existing and set(definition.columns) <= set(base.columns)
    ]
    if not orphans:
        return ""
    first = orphans[0]
    return (
        f"table {first.full_table} no longer exists, but its index {first.name} does: if it was renamed to this table, "
        f"run hive-bitmap attach {base.full_name} --from {first.full_table}"
    )


def of_folders(spark: SparkSession, folders: Sequence[str]) -> list[str]:
    """Return a hint for each indexed table whose folder a query reads by path.

    `folders` are the folders that the query reads.
    """
    locations = {raw_hadoop_path(folder) for folder in folders}
    databases = metastore.database_names(spark) if locations else ()
    definitions = [definition for database in databases for definition in _definitions(spark, database)]
    names = {(definition.database, definition.table) for definition in definitions}
    return [_hint(table) for table in catalog.described(spark, names) if table.location in locations]


def _hint(table: Table) -> str:
    return (
        f"folder {table.location} belongs to table {table.full_name}, which has indexes: a query of "
        f"spark.table({table.full_name!r}) uses them"
    )


def _definitions(spark: SparkSession, database: str) -> list[Definition]:
    """Return definitions of a database's indexes whose index tables have default names.

    At most MOST_INDEXES tables are examined.
    """
    names = metastore.names_like(spark, database, index_table_name("*", "*", "*"))[:MOST_INDEXES]
    return [index.definition for index in catalog.among(metastore.describe_many(spark, database, names))]
