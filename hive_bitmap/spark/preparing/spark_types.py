"""Get Spark's schema of a table."""

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
    """Return the schema of `spark.table(name)`.

    `base` is that table in the metastore. Spark caches tables: if its schema differs from the metastore's, because
    another session altered the table, Spark is made to read it again. The schema is cached while `base` and the
    settings stay the same, because analysing a table takes as long as planning a small query.
    """
    key = (base.database, base.name)
    cached = _seen.get(spark, key, catalog.INDEX_CACHE_SECONDS)
    if cached is not None and cached[:2] == (base, settings):
        return cached[2]
    schema = spark.table(name).schema
    if _types(schema) != {column.name.lower(): column.type for column in (*base.columns, *base.partition_columns)}:
        metastore.forget_files(spark, base)
        schema = spark.table(name).schema
    _seen.put(spark, key, (base, settings, schema))
    return schema


def _types(schema: StructType) -> dict[str, str]:
    return {column.name.lower(): column.type for column in spark_schema.columns_of(schema.jsonValue())}
