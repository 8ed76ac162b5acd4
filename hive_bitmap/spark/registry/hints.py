"""Hints for people whose query reads a table without its indexes: those of its former name, those of a folder's table.

They are looked for only where a query is explained: that takes a look at all index tables of a database.
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

MOST_INDEXES = 1000  # of a database, of which more are not looked through


def of_former_name(spark: SparkSession, table: str) -> str:
    """Say which table, now gone, left indexes that fit this one, which may be it under a new name; "" if none."""
    try:
        base = metastore.describe(spark, table)
    except (NotFound, Unsupported):
        return ""
    pointed = catalog.among(catalog.with_pointed(spark, (), [base]))
    found = [*_definitions(spark, base.database), *(index.definition for index in pointed)]
    definitions = [definition for definition in found if definition.database == base.database]
    named = sorted({definition.table for definition in definitions})
    there = {known.name for known in metastore.describe_many(spark, base.database, named)}
    left = [one for one in definitions if one.table not in there and set(one.columns) <= set(base.columns)]
    if not left:
        return ""
    first = left[0]
    return (
        f"table {first.full_table} is gone and left index {first.name}: if it was renamed to this, run hive-bitmap "
        f"attach {base.full_name} --from {first.full_table}"
    )


def of_folders(spark: SparkSession, folders: Sequence[str]) -> list[str]:
    """Say of each of these folders, which a query reads by its path, which indexed table it is the folder of."""
    places = {raw_hadoop_path(folder) for folder in folders}
    databases = metastore.database_names(spark) if places else ()
    named = {(one.database, one.table) for database in databases for one in _definitions(spark, database)}
    return [_hint(known) for known in catalog.described(spark, named) if known.location in places]


def _hint(table: Table) -> str:
    return (
        f"folder {table.location} is that of table {table.full_name}, which has indexes: a query of "
        f"spark.table({table.full_name!r}) uses them"
    )


def _definitions(spark: SparkSession, database: str) -> list[Definition]:
    """Return the definitions of the index tables in a database that have their usual names."""
    names = metastore.names_like(spark, database, index_table_name("*", "*", "*"))[:MOST_INDEXES]
    return [index.definition for index in catalog.among(metastore.describe_many(spark, database, names))]
