"""The stored values of partition columns in index tables.

They are made from the texts in the metastore. Python types texts in the canonical form of their types, and Spark all
others, as it does when it reads the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index.definition import TEXT_PARTITIONS
from hive_bitmap.core.partition_texts import typed_values
from hive_bitmap.core.table_info import Values, quote
from hive_bitmap.spark.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# From the partition columns and distinct values to a table with a row for each.
StoredValues = Callable[[Sequence[Column], Sequence[Values]], pa.Table]
_NUMBER = "__number"


def stored_values(spark: SparkSession, columns: Sequence[Column], values: Sequence[Values]) -> pa.Table:
    """Return the values that an index table has for these partitions.

    There is a row for each partition, and a column for each partition column. A text that is not a value of its type is
    NULL.
    """
    arrays = [_column(spark, column, [texts[at] for texts in values]) for at, column in enumerate(columns)]
    return pa.table(arrays, [column.name for column in columns])


def _column(spark: SparkSession, column: Column, texts: Sequence[str | None]) -> pa.Array:
    if column.type in TEXT_PARTITIONS:
        return pa.array(texts, pa.string())
    typed = typed_values(column, texts)
    if typed is not None:
        return typed
    return _by_spark(spark, column, texts).cast(arrow_type(KeyColumn(column.name, column.type)))


def _by_spark(spark: SparkSession, column: Column, texts: Sequence[str | None]) -> pa.Array:
    """Return the values that Spark reads from texts of partition values."""
    from pyspark.sql import functions as f

    texts_table = pa.table(
        {column.name: pa.array(texts, pa.string()), _NUMBER: pa.array(range(len(texts)), pa.int64())}
    )
    typed = f.expr(f"try_cast({quote(column.name)} AS {column.type})").alias(column.name)
    rows = data_frame(spark, texts_table).select(typed, _NUMBER).toArrow().sort_by(_NUMBER)  # Python has no year 10000
    return rows.column(0).combine_chunks().cast(arrow_type(KeyColumn(column.name, column.type)))
