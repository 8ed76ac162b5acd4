"""Indexes of tables with partition values that only Spark can type: they serve queries, and answers are Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.columns import Column
from hive_bitmap.spark.metastore import alter_table
from tests import asking
from tests.spark.maintaining.life import external_table, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("date", ("2024-01-01", "0001-01-01", None)),  # one value in doubt must not disable the index
        ("timestamp", ("2024-01-01 00:00:00", "2024-03-31 02:30:00.5", None)),
    ],
)
def test_values_that_only_spark_types(
    spark: SparkSession, database: str, tmp_path: Path, type: str, values: tuple[str | None, ...]
) -> None:
    for number in range(len(values)):
        write(tmp_path / str(number), 1, number)
    table = external_table(spark, "odd", tmp_path / "t", partition_columns=(Column("p", type),))
    folders = {(value,): f"file:{tmp_path}/{number}" for number, value in enumerate(values)}
    alter_table.change(spark, table, added=folders)
    hive_bitmap.build(spark, "odd", ["k"])
    counts = "SELECT k, count(*) FROM odd GROUP BY k"
    assert asking.told(spark, counts, "index only") == [("odd", "answered")]
    for query in (counts, f"SELECT id, p FROM odd WHERE k = 3 AND p = CAST('{values[0]}' AS {type})"):
        asking.require_alike(spark, query, "", "index only", "blocks")
