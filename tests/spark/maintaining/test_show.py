"""Tests of `show`: the state of each partition after changes to its files, and the number of keys as Spark counts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import hive_bitmap
from tests.spark.maintaining.life import (
    drop_partitions,
    external_table,
    parted_table,
    repair,
    require_right,
    require_verified,
    status,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_partition_is_told(memory: SparkSession, tmp_path: Path) -> None:
    parted = parted_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, parted, ["k"])
    before = status(memory, parted)
    assert [one.name for one in before.partitions] == ["p=1", "p=2", "p=3", "p=4"]
    assert [(one.fresh, one.base_rows, one.index_rows) for one in before.partitions] == [(2, 100, 18)] * 4
    assert abs(time.time() - (before.built or 0)) < 120 and before.problem == ""
    (tmp_path / "t" / "p=2" / "0.parquet").replace(tmp_path / "t" / "p=2" / "1.parquet")
    write(tmp_path / "t" / "p=3", files=1, first=2)
    write(tmp_path / "t" / "p=5", files=1)
    repair(memory, parted)
    drop_partitions(memory, parted, 4)
    after = {one.name: one for one in status(memory, parted).partitions}
    assert [(name, one.fresh, one.stale, one.unindexed, one.gone) for name, one in sorted(after.items())] == [
        ("p=1", 2, 0, 0, 0),
        ("p=2", 0, 1, 0, 1),
        ("p=3", 2, 0, 1, 0),
        ("p=4", 0, 0, 0, 2),
        ("p=5", 0, 0, 1, 0),
    ]
    assert (
        after["p=2"].stale_bytes == (tmp_path / "t" / "p=2" / "1.parquet").stat().st_size and after["p=5"].built is None
    )
    require_verified(memory, parted)
    hive_bitmap.rebuild(memory, parted)
    assert [(one.name, one.fresh, one.keys) for one in status(memory, parted).partitions] == [
        ("p=1", 2, None),
        ("p=2", 1, None),
        ("p=3", 3, None),
        ("p=5", 1, None),
    ]


def test_keys_are_counted_as_spark_counts_them(spark: SparkSession, database: str, tmp_path: Path) -> None:
    parted = parted_table(spark, tmp_path)
    write(tmp_path / "p=3", files=1, first=2)
    hive_bitmap.build(spark, parted, ["id"])
    [found] = hive_bitmap.show(spark, parted, keys=True)
    distinct = spark.sql("SELECT count(DISTINCT id) FROM parted GROUP BY p ORDER BY p").collect()
    assert [one.keys for one in found.partitions] == [row[0] for row in distinct]
    assert found.keys == spark.sql("SELECT count(DISTINCT id) FROM parted").collect()[0][0]


def test_partitions_that_an_index_leaves_out_are_not_told(spark: SparkSession, database: str, tmp_path: Path) -> None:
    parted = parted_table(spark, tmp_path)
    hive_bitmap.build(spark, parted, ["k"], where="p > 2 OR p IS NULL")
    assert [one.name for one in status(spark, parted).partitions] == ["p=3", "p=4"]
    assert (status(spark, parted).fresh, status(spark, parted).unindexed) == (4, 0)
    require_right(spark, parted)


def test_without_a_table_all_of_the_database_are_shown(memory: SparkSession, tmp_path: Path) -> None:
    assert hive_bitmap.show(memory) == []
    for name in ("b", "a", "none"):
        write(tmp_path / name)
        external_table(memory, name, tmp_path / name)
    hive_bitmap.build(memory, "b", ["id", "k"])
    hive_bitmap.build(memory, "a", ["k"])
    shown = hive_bitmap.show(memory)
    assert [(one.definition.table, one.definition.name) for one in shown] == [("a", "k"), ("b", "id"), ("b", "k")]
    assert str(shown).count("IndexStatus(k on") == 2
