"""Count the rows of a table that satisfy a predicate, in total or by the values of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.table_info import quote
from hive_bitmap.spark.querying.decided import decided
from hive_bitmap.spark.querying.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count(spark: SparkSession, table: str, predicate: str | None = None, *, strategy: str | None = None) -> int:
    """Return how many rows of the table satisfy the predicate, without a Spark job if the index has the answer.

    Raises the errors of `plan`.
    """
    wanted = Strategy.chosen(strategy)
    rows = table_rows(spark, table, predicate, strategy=wanted, must_pay=False)
    counted = rows.groupBy().count()
    found = decided(counted, table, predicate, wanted)
    number = None if found.answer is None else found.answer.number_of_rows(spark)
    return int(counted.collect()[0][0]) if number is None else number


def group_counts(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] = (),
    *,
    strategy: str | None = None,
) -> pa.Table:
    """Count the rows that satisfy the predicate, by the values of these columns.

    The result has a row for each combination of values that occurs, in no particular order. Its columns are the
    grouping columns, named as in the table, and `count` (int64). The index alone answers for partition columns together
    with columns of one index, or of two indexes of which one has few keys; otherwise Spark counts. Raises the errors of
    `plan`.
    """
    wanted = Strategy.chosen(strategy)
    rows = table_rows(spark, table, predicate, strategy=wanted, must_pay=False)
    known = [Column(name, "") for name in rows.columns]
    keys = [quote(find(known, column, f"table {table}").name) for column in columns]
    counted = rows.groupBy(*keys).count()
    if wanted is not None:
        decided(counted, table, predicate, wanted)
    return counted.toArrow()
