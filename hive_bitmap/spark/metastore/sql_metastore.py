"""Read and change the metastore by public SQL, which works over Spark Connect too."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hive_bitmap.core.table_info import (
    NULL_PARTITION,
    SESSION_CATALOG,
    Partition,
    Table,
    Values,
    in_spark,
    literal,
    partition_spec,
    quote,
)
from hive_bitmap.spark.metastore import table_ddl
from hive_bitmap.spark.metastore.protocol import Changes, columns_of
from hive_bitmap.spark.metastore.session_settings import verbatim_partitions

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

UNKNOWN_PARALLELISM = 8  # assumed number of tasks that a cluster runs at once


class SqlMetastore:
    """The `Metastore` of any session.

    This implementation sends an SQL statement for each table and each partition.
    """

    def available(self, spark: SparkSession) -> bool:
        return True

    def database_names(self, spark: SparkSession) -> list[str]:
        return [name for (name,) in spark.sql(f"SHOW DATABASES IN {SESSION_CATALOG}").collect()]

    def database_exists(self, spark: SparkSession, database: str) -> bool:
        return spark.catalog.databaseExists(in_spark(database))

    def database_folder(self, spark: SparkSession, database: str) -> str:
        return str(spark.catalog.getDatabase(in_spark(database)).locationUri)

    def describe(self, spark: SparkSession, database: str, names: Sequence[str], view: str) -> list[Table]:
        from pyspark.errors import PySparkException

        if view and spark.catalog.tableExists(quote(view)) and spark.catalog.getTable(quote(view)).isTemporary:
            return [Table(database=database, name=names[0], kind="TEMPORARY")]
        tables = []
        for name in names:
            try:
                if spark.catalog.tableExists(in_spark(database, name)):
                    tables.append(_described(spark, database, name))
            except PySparkException as e:
                if not is_unknown_kind(e):
                    raise
        return tables

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        rows = spark.sql(f"SHOW TABLES IN {in_spark(database)} LIKE {literal(pattern)}").collect()
        return [row["tableName"] for row in rows if not row["isTemporary"]]

    def partitions(self, spark: SparkSession, table: Table, values: Sequence[Values] | None = None) -> list[Partition]:
        names = spark.sql(f"SHOW PARTITIONS {table.spark_name}").collect()
        existing = [_values(name) for (name,) in names]
        wanted = set(existing if values is None else values)
        with verbatim_partitions(spark) as verbatim:
            return [_partition(verbatim, table, own) for own in existing if own in wanted]

    def create_table(self, spark: SparkSession, table: Table) -> bool:
        from pyspark.errors import AnalysisException

        try:
            spark.sql(table_ddl.creating(table))
        except AnalysisException:
            if not self.describe(spark, table.database, [table.name], view=""):
                raise
            return False
        return True

    def drop_table(self, spark: SparkSession, name: str, *, if_exists: bool, purge: bool) -> None:
        spark.sql(table_ddl.dropping_table(name, if_exists=if_exists, purge=purge))

    def drop_database(self, spark: SparkSession, database: str, *, if_exists: bool) -> None:
        spark.sql(table_ddl.dropping_database(database, if_exists=if_exists))

    def rename_table(self, spark: SparkSession, table: Table, name: str) -> None:
        spark.sql(table_ddl.renaming(table, name))

    def set_properties(
        self, spark: SparkSession, table: Table, properties: Mapping[str, str], unset: Collection[str]
    ) -> None:
        for statement in table_ddl.setting(table, properties, unset):
            spark.sql(statement)

    def change(self, spark: SparkSession, table: Table, changes: Changes) -> bool:
        if not table.partition_columns:
            for statement in table_ddl.moving(table, changes.moved):
                spark.sql(statement)
            return True
        with verbatim_partitions(spark) as verbatim:
            are_new = self._add(spark, verbatim, table, changes.added)
            self._move(spark, verbatim, table, changes)
        spark.catalog.refreshTable(table.spark_name)
        return are_new

    def _add(self, spark: SparkSession, verbatim: SparkSession, table: Table, new: Mapping[Values, str]) -> bool:
        """Add the partitions that do not exist yet; return whether all partitions were new.

        `new` has the folder of each partition. `verbatim` is a session that takes partition values verbatim.
        """
        are_new = True
        for batch in table_ddl.batches(new):
            try:
                verbatim.sql(table_ddl.adding(table, batch))
            except Exception as e:  # Spark Connect raises other classes
                if not is_there_already(e):
                    raise
                verbatim.sql(table_ddl.adding(table, batch, if_not_exists=True))
                are_new = False
        return are_new

    def _move(self, spark: SparkSession, verbatim: SparkSession, table: Table, changes: Changes) -> None:
        """Move partitions one by one, first the `vacated` partitions.

        A reader may miss rows for a moment, but never sees rows twice. `verbatim` is a session that takes partition
        values verbatim.
        """
        still_to_move = {
            values: folder for values, folder in changes.moved.items() if folder != changes.vacated.get(values)
        }
        for folders in (changes.vacated, still_to_move):
            for statement in table_ddl.moving(table, folders):
                verbatim.sql(statement)

    def forget_files(self, spark: SparkSession, table: Table) -> None:
        spark.catalog.refreshTable(table.spark_name)

    def refresh_files(self, spark: SparkSession, table: Table) -> None:
        self.forget_files(spark, table)  # a Spark Connect client reaches no listing

    def is_cached(self, spark: SparkSession, spark_name: str) -> bool:
        return spark.catalog.isCached(spark_name)

    def time_zone(self, spark: SparkSession) -> str:
        return ""

    def default_parallelism(self, spark: SparkSession) -> int:
        return UNKNOWN_PARALLELISM

    def current_user(self, spark: SparkSession) -> str:
        return str(spark.sql("SELECT current_user()").collect()[0][0])

    def has_foreign_rules(self, spark: SparkSession) -> bool:
        return True  # unknown without py4j, so assumed


def is_unknown_kind(error: PySparkException) -> bool:
    """Return whether an error says that Spark does not support a table.

    `error` is Spark's error for the table. Spark supports no index tables of Hive 2, for example, and no columns of
    types that only Hive has.
    """
    return any(condition in str(error) for condition in ("HIVE_TABLE_TYPE", "UNSUPPORTED_HIVE_TYPE"))


def is_there_already(error: Exception) -> bool:
    """Return whether an error says that a partition exists already."""
    return "PARTITIONS_ALREADY_EXIST" in str(error)


def _described(spark: SparkSession, database: str, name: str) -> Table:
    spark_name = in_spark(database, name)
    info = json.loads(spark.sql(f"DESCRIBE TABLE EXTENDED {spark_name} AS JSON").collect()[0][0])
    declared = spark.table(spark_name).schema.json()
    columns = columns_of(json.loads(declared))
    partition_names = [p.lower() for p in info.get("partition_columns", [])]
    return Table(
        database=database,
        name=name,
        kind=info["type"],
        provider=info.get("provider", ""),
        columns=tuple(c for c in columns if c.name.lower() not in partition_names),
        partition_columns=tuple(c for c in columns if c.name.lower() in partition_names),
        location=re.sub(r"^file:/+", "file:/", info.get("location", "")),
        input_format=info.get("input_format", ""),
        serde=info.get("serde_library", ""),
        properties=info.get("table_properties", {}),
        options=info.get("storage_properties", {}),
        declared=declared,
        by_folders=info.get("provider", "hive") != "hive"
        and bool(partition_names)
        and "partition_provider" not in info,
        owner=info.get("owner", ""),
    )


def _values(name: str) -> Values:
    """Return the values of a partition, given its name."""
    values = [unquote(part.partition("=")[2]) for part in name.split("/")]
    return tuple(None if value == NULL_PARTITION else value for value in values)


def _partition(spark: SparkSession, table: Table, values: Values) -> Partition:
    sql = f"DESCRIBE TABLE EXTENDED {table.spark_name} PARTITION {partition_spec(table, values)} AS JSON"
    info = json.loads(spark.sql(sql).collect()[0][0])
    return Partition(
        values=values,
        location=re.sub(r"^file:/+", "file:/", info["location"]),
        input_format=info.get("input_format", ""),
        serde=info.get("serde_library", ""),
        properties=(*info.get("partition_parameters", {}).items(), *info.get("storage_properties", {}).items()),
    )
