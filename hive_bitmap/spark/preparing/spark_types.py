"""Spark's schema of a table, and DataFrames made of Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.metastore import metastore, spark_schema
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.session_cache import TtlCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_seen: TtlCache[tuple[str, str], tuple[Table, Mapping[str, str], StructType]] = TtlCache()


def schema_of(spark: SparkSession, name: str, base: Table, settings: Mapping[str, str]) -> StructType:
    """Return the schema of `spark.table(name)`, which in the metastore is now `base`.

    Spark caches tables: if its schema differs from the metastore's, because another session altered the table, Spark is
    made to read it again. The schema is cached while `base` and the settings stay the same, because analysing a table
    takes as long as planning a small query.
    """
    where = (base.database, base.name)
    kept = _seen.get(spark, where, catalog.INDEX_CACHE_SECONDS)
    if kept is not None and kept[:2] == (base, settings):
        return kept[2]
    schema = spark.table(name).schema
    if _types(schema) != {column.name.lower(): column.type for column in (*base.columns, *base.partition_columns)}:
        metastore.forget_files(spark, base)
        schema = spark.table(name).schema
    _seen.put(spark, where, (base, settings, schema))
    return schema


def _types(schema: StructType) -> dict[str, str]:
    return {column.name.lower(): column.type for column in spark_schema.columns_of(schema.jsonValue())}
