"""Tests of `show`: the state of each partition after changes to its files, and the number of keys as Spark counts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests.spark.maintaining.life import parted_table, require_right, status, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.contract
def test_each_partition_is_told(spark: SparkSession, database: str, tmp_path: Path) -> None:
    parted = parted_table(spark, tmp_path)
    hive_bitmap.build(spark, parted, ["k"])
    before = status(spark, parted)
    assert [one.name for one in before.partitions] == ["p=1", "p=2", "p=3", "p=4"]
    assert [(one.fresh, one.base_rows, one.index_rows) for one in before.partitions] == [(2, 100, 18)] * 4
    assert abs(time.time() - (before.built or 0)) < 120 and before.problem == ""
    (tmp_path / "p=2" / "0.parquet").replace(tmp_path / "p=2" / "1.parquet")
    write(tmp_path / "p=3", files=1, first=2)
    spark.sql("ALTER TABLE parted DROP PARTITION (p=4)")
    write(tmp_path / "p=5", files=1)
    spark.sql("ALTER TABLE parted ADD PARTITION (p=5)")
    after = {one.name: one for one in status(spark, parted).partitions}
    assert [(name, one.fresh, one.stale, one.unindexed, one.gone) for name, one in sorted(after.items())] == [
        ("p=1", 2, 0, 0, 0),
        ("p=2", 0, 1, 0, 1),
        ("p=3", 2, 0, 1, 0),
        ("p=4", 0, 0, 0, 2),
        ("p=5", 0, 0, 1, 0),
    ]
    assert after["p=2"].stale_bytes == (tmp_path / "p=2" / "1.parquet").stat().st_size and after["p=5"].built is None
    require_right(spark, parted)
    hive_bitmap.rebuild(spark, parted)
    assert [(one.name, one.fresh, one.keys) for one in status(spark, parted).partitions] == [
        ("p=1", 2, None),
        ("p=2", 1, None),
        ("p=3", 3, None),
        ("p=5", 1, None),
    ]
    [found] = hive_bitmap.show(spark, parted, keys=True)
    distinct = spark.sql("SELECT count(DISTINCT k) FROM parted GROUP BY p ORDER BY p").collect()
    assert [one.keys for one in found.partitions] == [row[0] for row in distinct]
    assert found.keys == spark.sql("SELECT count(DISTINCT k) FROM parted").collect()[0][0]


def test_partitions_that_an_index_leaves_out_are_not_told(spark: SparkSession, database: str, tmp_path: Path) -> None:
    parted = parted_table(spark, tmp_path)
    hive_bitmap.build(spark, parted, ["k"], where="p > 2 OR p IS NULL")
    assert [one.name for one in status(spark, parted).partitions] == ["p=3", "p=4"]
    assert (status(spark, parted).fresh, status(spark, parted).unindexed) == (4, 0)
    require_right(spark, parted)


def test_without_a_table_all_of_the_database_are_shown(spark: SparkSession, database: str) -> None:
    assert hive_bitmap.show(spark) == []
    for name in ("b", "a", "none"):
        spark.sql(f"CREATE TABLE {name} USING parquet AS SELECT id AS k, id AS l FROM range(3)")
    hive_bitmap.build(spark, "b", ["l", "k"])
    hive_bitmap.build(spark, "a", ["k"])
    shown = hive_bitmap.show(spark)
    assert [(one.definition.table, one.definition.name) for one in shown] == [("a", "k"), ("b", "k"), ("b", "l")]
    assert str(shown).count("IndexStatus(k on") == 2
