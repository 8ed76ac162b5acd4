"""Fetch or count the rows that satisfy a predicate, or plan such a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_bitmap.core.columns import Column, find
from hive_bitmap.core.explaining.explain_html import ShownPlan
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.table_info import quote
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst import execution
from hive_bitmap.spark.querying.decided import decision_on
from hive_bitmap.spark.querying.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def count(spark: SparkSession, table: str, predicate: str | None = None, *, strategy: str | None = None) -> int:
    """Return the number of rows that satisfy the predicate.

    The predicate None stands for all rows. `strategy` overrides the choice by cost. No Spark job runs if the index has
    the answer. Raises the errors of `plan`.
    """
    chosen_strategy = Strategy.chosen(strategy)
    rows = table_rows(spark, table, predicate, strategy=chosen_strategy, must_pay=False)
    counted = rows.groupBy().count()
    decision = decision_on(counted, table, predicate, chosen_strategy)
    number = None if decision.answer is None else execution.number_of_rows(spark, decision.answer)
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

    The predicate None stands for all rows. `strategy` overrides the choice by cost. The result has a row for each
    combination of values that occurs, in no particular order. Its columns are the grouping columns, named as in the
    table, and `count` (int64). The indexes alone answer if each grouping column is a partition column or a column of a
    single index, or if two indexes have the columns and one of them has few keys. Otherwise Spark counts. Raises the
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


def scan(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    strategy: str | None = None,
) -> DataFrame:
    """Return `spark.table(table).where(predicate)`, read through the index if that is cheaper.

    The predicate None stands for all rows. If `columns` are given, the DataFrame has only these columns. The DataFrame
    reads the files that the session listed last. The session need not be enabled. `strategy` overrides the choice by
    cost if an index can be used, as `hive_bitmap.strategy` does for a session. For a Spark Connect client the server
    plans, and uses indexes only if it has the extension. Raises the errors of `plan`, and Unsupported for a strategy
    that cannot answer.
    """
    chosen_strategy = Strategy.chosen(strategy)
    if chosen_strategy is Strategy.INDEX_ONLY:
        raise Unsupported(f"strategy {strategy!r} only counts rows: use hive_bitmap.count, or another strategy")
    if chosen_strategy is not None:
        plan(spark, table, predicate, columns, strategy=strategy)
    return table_rows(spark, table, predicate, columns, strategy=chosen_strategy)


def plan(
    spark: SparkSession,
    table: str,
    predicate: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    count: bool = False,
    strategy: str | None = None,
) -> Plan:
    """Plan how `scan` would answer now, without reading rows of the table.

    With `count`, plan `hive_bitmap.count` instead. `predicate` is a condition in Spark SQL, or None for all rows.
    `columns` are the columns to read, or None for all. `strategy` overrides the choice by cost: `index only`, `rows`,
    `blocks`, `files` or `full scan`. The indexes are consulted even for a small table, for which a query would not use
    them. `str()` of the plan summarizes it. For a Spark Connect client the plan is a full scan, because the server
    plans.

    Raises NotFound for an unknown table or column, InvalidPredicate for a predicate that is not SQL, and Unsupported
    for a strategy that cannot answer.
    """
    chosen_strategy = Strategy.chosen(strategy)
    rows = table_rows(spark, table, predicate, columns, strategy=chosen_strategy, must_pay=False)
    decided = decision_on(rows.groupBy().count() if count else rows, table, predicate, chosen_strategy)
    return ShownPlan.of(decided.plan)
