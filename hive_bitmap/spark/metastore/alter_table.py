"""Change tables in the metastore.

Each function calls the `Metastore` implementation that serves the session.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.protocol import Changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create(spark: SparkSession, table: Table) -> bool:
    """Create an external table, by `Metastore.create_table`.

    Return False if the name is taken.
    """
    return metastore.of(spark).create_table(spark, table)


def drop(spark: SparkSession, table: Table) -> None:
    """Drop a table if it exists; the files of an external table stay."""
    drop_named(spark, table.spark_name, if_exists=True)


def drop_named(spark: SparkSession, name: str, *, if_exists: bool, purge: bool = False) -> None:
    """Drop a table, given by its name in Spark's SQL, as DROP TABLE does.

    With `if_exists`, a missing table is no error. `purge` adds PURGE.
    """
    metastore.of(spark).drop_table(spark, name, if_exists=if_exists, purge=purge)


def drop_database(spark: SparkSession, database: str, *, if_exists: bool) -> None:
    """Drop a database with its tables, as DROP DATABASE .. CASCADE does."""
    metastore.of(spark).drop_database(spark, database, if_exists=if_exists)


def rename(spark: SparkSession, table: Table, name: str) -> None:
    """Rename a table inside its database.

    The files of an external table are not moved.
    """
    metastore.of(spark).rename_table(spark, table, name)


def set_properties(
    spark: SparkSession, table: Table, properties: Mapping[str, str], unset: Collection[str] = ()
) -> None:
    """Set these table properties in one change.

    Afterwards, unset the properties in `unset` that the table has.
    """
    metastore.of(spark).set_properties(spark, table, properties, unset)


def change(
    spark: SparkSession,
    table: Table,
    *,
    added: Mapping[Values, str] = MappingProxyType({}),
    vacated: Mapping[Values, str] = MappingProxyType({}),
    moved: Mapping[Values, str] = MappingProxyType({}),
) -> bool:
    """Add and move partitions of a table, or move the table, in one batch.

    The arguments map the values of partitions to folders: `added` the partitions to add, `moved` the partitions to
    move. A session that cannot move all partitions in one call first moves the partitions in `vacated` to the folders
    that `vacated` gives (`protocol.Changes`). Return whether this call has added all of the `added` partitions.
    """
    return metastore.of(spark).change(spark, table, Changes(added=added, vacated=vacated, moved=moved))
