"""Determine the partitions that an index covers.

An index covers the partitions that satisfy its WHERE, a condition on the partition columns. Spark evaluates the
condition over the partition values, so the condition means the same as in a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.index.partition_conditions import parse
from hive_bitmap.core.predicates.tokens import require_characters
from hive_bitmap.core.table_info import Table, error_message, quote
from hive_bitmap.errors import InvalidPredicate, Unsupported
from hive_bitmap.spark.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NUMBER = "__number"


def satisfying(frame: DataFrame, condition: str) -> DataFrame:
    """Return the rows of a DataFrame that satisfy an SQL condition.

    The condition is put in parentheses, because `where` would read the last word of `k = 1 AND` as an alias. The
    condition must also be valid without the parentheses, unlike `a) OR (b`. Raises ParseException, and InvalidPredicate
    for text that is not valid Unicode.
    """
    require_characters(condition)
    unbracketed = frame.where(condition)
    if not hasattr(frame, "_jdf"):
        unbracketed.schema  # noqa: B018 - Spark Connect parses when the schema is requested
    return frame.where(bracketed(condition))


def bracketed(condition: str) -> str:
    """Return a condition in parentheses.

    A line break before the closing parenthesis ends a comment, which would otherwise hide the parenthesis.
    """
    return f"({condition}\n)" if "--" in condition else f"({condition})"


def covered(spark: SparkSession, base: Table, where: str, values: Sequence[tuple[str | None, ...]]) -> list[bool]:
    """Return, for each partition, whether it satisfies `where`.

    `values` has the values of each partition; None stands for NULL. Every partition satisfies an empty `where`. Raises
    Unsupported if the table has no partition columns, and InvalidPredicate for a text that `parse` or Spark rejects.
    Spark evaluates only text that `parse` has written.
    """
    if not where:
        return [True] * len(values)
    if not base.partition_columns:
        raise Unsupported(f"table {base.full_name} has no partition columns, so WHERE cannot select partitions")
    condition = " OR ".join(parse(where, base.partition_columns))
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    texts = {
        column.name: pa.array([row[position] for row in values], pa.string())
        for position, column in enumerate(base.partition_columns)
    }
    frame = data_frame(spark, pa.table({**texts, _NUMBER: pa.array(range(len(values)), pa.int64())}))
    typed = [
        f.expr(f"try_cast({quote(column.name)} AS {column.type})").alias(column.name)
        for column in base.partition_columns
    ]
    try:
        rows = satisfying(frame.select(*typed, _NUMBER), condition).select(_NUMBER).collect()
    except PySparkException as e:
        names = ", ".join(column.name for column in base.partition_columns)
        why_not = f"cannot select partitions of table {base.full_name} by {names}: {error_message(e)}"
        raise InvalidPredicate(f"WHERE {where} {why_not}") from e
    chosen = {row[0] for row in rows}
    return [number in chosen for number in range(len(values))]
