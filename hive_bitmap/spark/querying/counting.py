"""Count the rows that satisfy a predicate.

They are counted in total or by column values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.table_info import quote
from hive_bitmap.spark.querying.decided import decision_on
from hive_bitmap.spark.querying.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count(spark: SparkSession, table: str, predicate: str | None = None, *, strategy: str | None = None) -> int:
    """Return the number of rows that satisfy the predicate.

    If the index has the answer, no Spark job runs. Raises the errors of `plan`.
    """
    chosen_strategy = Strategy.chosen(strategy)
    rows = table_rows(spark, table, predicate, strategy=chosen_strategy, must_pay=False)
    counted = rows.groupBy().count()
    decision = decision_on(counted, table, predicate, chosen_strategy)
    number = None if decision.answer is None else decision.answer.number_of_rows(spark)
    return int(counted.collect()[0][0]) if number is None else number


def group_counts(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] = (),
    *,
    strategy: str | None = None,
) -> pa.Table:
    """Count the rows that satisfy the predicate, by the values of columns.

    The result has a row for each combination of values that occurs, in no particular order. Its columns are the
    grouping columns, named as in the table, and `count` (int64). The index alone answers for partition columns together
    with the columns of one index, or of two indexes if one of them has few keys; otherwise Spark counts. Raises the
    errors of `plan`.
    """
    chosen_strategy = Strategy.chosen(strategy)
    rows = table_rows(spark, table, predicate, strategy=chosen_strategy, must_pay=False)
    table_columns = [Column(name, "") for name in rows.columns]
    keys = [quote(find(table_columns, column, f"table {table}").name) for column in columns]
    counted = rows.groupBy(*keys).count()
    if chosen_strategy is not None:
        decision_on(counted, table, predicate, chosen_strategy)
    return counted.toArrow()
