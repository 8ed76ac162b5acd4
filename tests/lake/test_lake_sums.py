"""Aggregates in indexes of Delta and Iceberg tables: those of the files that the log lists, with evolved columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests.asking import require_alike, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'false')"
ROWS = (
    "CAST(id % 5 AS INT) AS k, CAST(id * 11.25 AS DECIMAL(12,2)) AS amount, IF(id % 3 = 0, NULL, CAST(id AS INT)) AS n"
)
AGGREGATES = "count(*), sum(amount), n, sum(amount * n) AS revenue"
OF_TYPES = pytest.mark.parametrize("type", ["BITMAP", "AGGREGATE"])


def totals(spark: SparkSession, table: str, amount: str) -> tuple[list[Any], list[Any]]:
    """The aggregates by key in the index table, and those that the format's own reader computes."""
    index = hive_bitmap.show(spark, table)[0].definition.full_index_table
    spark.catalog.refreshTable(f"spark_catalog.{index}")
    stored = spark.sql(
        "SELECT k, sum(_count_of_all), sum(_sum_of_amount), min(_min_of_amount), max(_max_of_amount), sum(_sum_of_n), "
        "sum(_count_of_n), sum(_sum_of_revenue), min(_min_of_revenue), sum(_count_of_revenue), "
        "sum(IF(_count_of_amount IS NULL, _count_of_all, 0)), sum(IF(_count_of_revenue IS NULL, _count_of_all, 0)) "
        f"FROM spark_catalog.{index} GROUP BY k"
    )
    computed = spark.sql(
        f"SELECT k, count(*), sum({amount}), min({amount}), max({amount}), sum(n), count(n), sum({amount} * n), "
        f"min({amount} * n), count({amount} * n), 0, 0 FROM {table} GROUP BY k"
    )
    return sorted(map(tuple, stored.collect())), sorted(map(tuple, computed.collect()))


def require_answered(spark: SparkSession, table: str, *, answered: bool = True, amount: str = "amount") -> None:
    """Require Spark's sums, by the index unless they are not to be `answered`."""
    for text in (
        f"SELECT k, sum({amount}), avg({amount}), count(*), max({amount}) FROM {table} GROUP BY k",
        f"SELECT sum({amount}) / count(*), min({amount}) FROM {table} WHERE k > 1",
    ):
        require_alike(spark, text, "index only")
        assert [action for _, action in told(spark, text, "index only")] == ["answered" if answered else "left alone"]


def require_revenue(spark: SparkSession, table: str, *, answered: bool = True) -> None:
    """Require Spark's sums of the expression as well."""
    require_answered(spark, table, answered=answered)
    require_answered(spark, table, answered=answered, amount="n * amount")


def require_exact(spark: SparkSession, table: str) -> None:
    require_revenue(spark, table)
    stored, computed = totals(spark, table, "amount")
    assert stored == computed and len(stored) == 5
    assert [verified.problems for verified in hive_bitmap.verify(spark, table)] == [()]


def live(spark: SparkSession, table: str, type: str) -> None:
    """Build, append and rewrite; then rename the summed column, whose sums are unknown from then on."""
    hive_bitmap.build(spark, table, ["k"], type=type, aggregates=AGGREGATES)
    require_exact(spark, table)
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(300, 500)")
    hive_bitmap.rebuild(spark, table)
    require_exact(spark, table)
    spark.sql(f"INSERT OVERWRITE {table} SELECT {ROWS} FROM range(50, 90)")
    hive_bitmap.rebuild(spark, table, compact=True)
    require_exact(spark, table)
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN amount TO total")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN amount DECIMAL(12,2)")
    spark.sql(f"INSERT INTO {table} SELECT {ROWS.replace('amount', 'total')}, 7.5 AS amount FROM range(100, 110)")
    hive_bitmap.rebuild(spark, table)
    stored, computed = totals(spark, table, "amount")
    assert [row[-2:] for row in stored] == [(2, 2)] * 5  # of the new file
    assert [row[1] for row in stored] == [row[1] for row in computed]
    for amount in ("amount", "total", "amount * n", "total * n"):
        require_answered(spark, table, answered=False, amount=amount)
    require_answered(spark, table, amount="n")
    assert [row[5:7] for row in stored] == [row[5:7] for row in computed]
    [status] = hive_bitmap.show(spark, table)
    assert status.problem == "" and status.unindexed == 0
    assert hive_bitmap.count(spark, table, "k = 3") == spark.table(table).where("k = 3").count()
    assert [verified.problems for verified in hive_bitmap.verify(spark, table)] == [()]


def delete_rows(spark: SparkSession, table: str, type: str) -> None:
    """Delete some rows of files that stay: Spark sums these files, the index the others; then append."""
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(0, 100, 1, 1)")
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(100, 300, 1, 1)")
    hive_bitmap.build(spark, table, ["k"], type=type, aggregates=AGGREGATES)
    spark.sql(f"DELETE FROM {table} WHERE n % 7 = 1 AND n < 90")
    require_revenue(spark, table)
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(300, 350, 1, 1)")
    require_revenue(spark, table)


def other_column(spark: SparkSession, table: str, version: Callable[[], str], former: str, current: str) -> None:
    """Index an expression, then the same text over another column of the name, and ask versions of before and after.

    `version` returns the text that follows the name of the table, to ask for its current version. `former` and
    `current` are the names of the indexes. A file is indexed by the first only after its column is gone.
    """
    query = "SELECT k, sum(amount * n), count(amount * n), count(*) FROM {} GROUP BY k"
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(0, 100, 1, 1)")
    hive_bitmap.build(spark, table, ["k"], name=former, aggregates="count(*), sum(amount * n) AS r")
    require_asked(spark, query.format(table), answered=True)
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(100, 130, 1, 1)")
    before = version()
    spark.sql(f"ALTER TABLE {table} DROP COLUMN amount")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN amount DECIMAL(12,2)")
    spark.sql(f"INSERT INTO {table} SELECT k, n, amount FROM (SELECT {ROWS} FROM range(130, 150, 1, 1))")
    hive_bitmap.build(spark, table, ["k"], name=current, aggregates="count(*), sum(amount * n) AS r", deferred=True)
    hive_bitmap.rebuild(spark, table)
    require_asked(spark, query.format(table), answered=True)
    require_asked(spark, query.format(f"{table} {before}"))
    assert {verified.problems for verified in hive_bitmap.verify(spark, table)} == {()}


def require_asked(spark: SparkSession, query: str, *, answered: bool | None = None) -> None:
    """Require Spark's answer to a query, and whether the index gives it if `answered` is not None."""
    require_alike(spark, query, "index only")
    [(_, action)] = told(spark, query, "index only")
    assert answered is None or action == ("answered" if answered else "left alone"), query


@OF_TYPES
@pytest.mark.turn(2)
def test_deleted_rows_of_delta(spark: SparkSession, database: str, type: str) -> None:
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"CREATE TABLE t (k INT, amount DECIMAL(12,2), n INT) USING delta {properties}")
    delete_rows(spark, "t", type)


@OF_TYPES
@pytest.mark.turn(2)
def test_deleted_rows_of_iceberg(iceberg: SparkSession, iceberg_table: str, type: str) -> None:
    properties = "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    iceberg.sql(f"CREATE TABLE {iceberg_table} (k INT, amount DECIMAL(12,2), n INT) USING iceberg {properties}")
    delete_rows(iceberg, iceberg_table, type)


@OF_TYPES
@pytest.mark.turn(2)
def test_of_delta(spark: SparkSession, database: str, type: str) -> None:
    spark.sql(f"CREATE TABLE t (k INT, amount DECIMAL(12,2), n INT) USING delta {MAPPED}")
    spark.sql(f"INSERT INTO t SELECT {ROWS} FROM range(0, 300, 1, 2)")
    live(spark, "t", type)


@OF_TYPES
@pytest.mark.turn(2)
def test_of_iceberg(iceberg: SparkSession, iceberg_table: str, type: str) -> None:
    iceberg.sql(f"CREATE TABLE {iceberg_table} (k INT, amount DECIMAL(12,2), n INT) USING iceberg")
    iceberg.sql(f"INSERT INTO {iceberg_table} SELECT {ROWS} FROM range(0, 300, 1, 2)")
    live(iceberg, iceberg_table, type)


def test_an_expression_over_another_column_of_delta(spark: SparkSession, database: str) -> None:
    spark.sql(f"CREATE TABLE t (k INT, amount DECIMAL(12,2), n INT) USING delta {MAPPED}")
    other_column(
        spark,
        "t",
        lambda: f"VERSION AS OF {spark.sql('DESCRIBE HISTORY t').agg({'version': 'max'}).first()[0]}",
        *("first", "second"),
    )


def test_an_expression_over_another_column_of_iceberg(iceberg: SparkSession, iceberg_table: str) -> None:
    iceberg.sql(f"CREATE TABLE {iceberg_table} (k INT, amount DECIMAL(12,2), n INT) USING iceberg")
    latest = f"SELECT snapshot_id FROM {iceberg_table}.snapshots ORDER BY committed_at DESC"
    other_column(iceberg, iceberg_table, lambda: f"VERSION AS OF {iceberg.sql(latest).first()[0]}", "second", "first")


def test_columns_that_partition_are_refused(iceberg: SparkSession, iceberg_table: str) -> None:
    iceberg.sql(f"CREATE TABLE {iceberg_table} (k INT, n INT) USING iceberg PARTITIONED BY (n)")
    with pytest.raises(Unsupported, match="'n' partitions"):
        hive_bitmap.build(iceberg, iceberg_table, ["k"], aggregates="sum(n)")
