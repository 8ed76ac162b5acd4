"""Read the metastore by public SQL, for sessions whose JVM py4j cannot reach (Spark Connect)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hive_bitmap.core.table_info import NULL_PARTITION, Partition, Table, in_spark, literal, partition_spec, quote
from hive_bitmap.spark.metastore.reader import is_unknown_kind
from hive_bitmap.spark.metastore.session_settings import verbatim_partitions
from hive_bitmap.spark.metastore.spark_schema import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNKNOWN_PARALLELISM = 8  # assumed number of tasks that a cluster runs at once


class SqlReader:
    """The `Reader` that works with any session. It needs a statement for each table and each partition."""

    @staticmethod
    def available(spark: SparkSession) -> bool:
        return True

    @staticmethod
    def describe(spark: SparkSession, database: str, names: Sequence[str], view: str) -> list[Table]:
        from pyspark.errors import PySparkException

        if view and spark.catalog.tableExists(quote(view)) and spark.catalog.getTable(quote(view)).isTemporary:
            return [Table(database=database, name=names[0], kind="TEMPORARY")]
        found = []
        for name in names:
            try:
                if spark.catalog.tableExists(in_spark(database, name)):
                    found.append(SqlReader.describe_one(spark, database, name))
            except PySparkException as e:
                if not is_unknown_kind(e):
                    raise
        return found

    @staticmethod
    def describe_one(spark: SparkSession, database: str, name: str) -> Table:
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

    @staticmethod
    def names_like(spark: SparkSession, database: str, pattern: str) -> list[str]:
        rows = spark.sql(f"SHOW TABLES IN {in_spark(database)} LIKE {literal(pattern)}").collect()
        return [row["tableName"] for row in rows if not row["isTemporary"]]

    @staticmethod
    def partitions(spark: SparkSession, table: Table) -> list[Partition]:
        names = spark.sql(f"SHOW PARTITIONS {table.spark_name}").collect()
        with verbatim_partitions(spark) as verbatim:
            return [SqlReader.partition(verbatim, table, name) for (name,) in names]

    @staticmethod
    def partition(spark: SparkSession, table: Table, name: str) -> Partition:
        pairs = [unquote(part.partition("=")[2]) for part in name.split("/")]
        values = tuple(None if value == NULL_PARTITION else value for value in pairs)
        sql = f"DESCRIBE TABLE EXTENDED {table.spark_name} PARTITION {partition_spec(table, values)} AS JSON"
        info = json.loads(spark.sql(sql).collect()[0][0])
        return Partition(
            values=values,
            location=re.sub(r"^file:/+", "file:/", info["location"]),
            input_format=info.get("input_format", ""),
            serde=info.get("serde_library", ""),
            properties=(*info.get("partition_parameters", {}).items(), *info.get("storage_properties", {}).items()),
        )

    @staticmethod
    def forget_files(spark: SparkSession, table: Table) -> None:
        spark.catalog.refreshTable(table.spark_name)

    refresh_files = forget_files  # a Spark Connect client reaches no listing

    @staticmethod
    def is_cached(spark: SparkSession, spark_name: str) -> bool:
        return spark.catalog.isCached(spark_name)

    @staticmethod
    def time_zone(spark: SparkSession) -> str:
        return ""

    @staticmethod
    def default_parallelism(spark: SparkSession) -> int:
        return UNKNOWN_PARALLELISM
