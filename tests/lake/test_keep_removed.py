"""Indexes that keep files which their Delta or Iceberg table has removed, for queries of older versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidProperty
from tests import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
ROWS = "SELECT id, CAST(id % 100 AS INT) AS k, md5(CAST(id AS STRING)) AS s FROM range(0, 20000, 1, 2)"


def make(spark: SparkSession, table: str, provider: str) -> None:
    """A table of version 1, or of a first snapshot, whose files a rebuild of the index no longer finds."""
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT, s STRING) USING {provider}")
    spark.sql(f"INSERT INTO {table} {ROWS}")
    for name, kept in (("kept", "7"), ("plain", "")):
        column = {"kept": "s", "plain": "k"}[name]
        hive_bitmap.build(spark, table, [column], name=name, keep_removed=kept)
    spark.sql(f"INSERT OVERWRITE {table} {ROWS.replace('% 100', '% 90')}")
    hive_bitmap.rebuild(spark, table)


def require_kept(spark: SparkSession, table: str, version: str) -> None:
    kept, plain = hive_bitmap.show(spark, table)
    assert (kept.definition.keep_removed, plain.definition.keep_removed) == ("7 days", "")
    assert kept.gone > 0 and plain.gone == 0 and not kept.problem and kept.unindexed == 0
    past = f"SELECT id FROM {table} {version} WHERE s = md5('95')"
    counted = f"SELECT count(*) FROM {table} {version} WHERE s = md5('95')"
    by_other = past.replace("s = md5('95')", "k = 95")
    for query in (past, by_other, counted, past.replace(version, ""), counted.replace(version, "")):
        asking.require_alike(spark, query, "blocks", "index only")
    with asking.indexed(spark, "blocks"):
        [told] = hive_bitmap.explain(past, spark).relations
        [other] = hive_bitmap.explain(by_other, spark).relations
    assert (told.action, told.files_selected, told.files_total) == ("narrowed", 1, 2)
    assert other.files_selected == other.files_total
    [before] = [report for report in hive_bitmap.rebuild(spark, table) if report.definition.name == "kept"]
    assert before.files_read == 0 and hive_bitmap.show(spark, table)[0].gone == kept.gone
    hive_bitmap.set_properties(spark, table, "kept", {"keep_removed": ""})
    hive_bitmap.rebuild(spark, table)
    assert hive_bitmap.show(spark, table)[0].gone == 0
    asking.require_alike(spark, past, "blocks")


def test_of_delta(spark: SparkSession, database: str) -> None:
    make(spark, "t", "delta")
    require_kept(spark, "t", "VERSION AS OF 1")


def test_of_iceberg(iceberg: SparkSession, iceberg_table: str) -> None:
    make(iceberg, iceberg_table, "iceberg")
    [first] = iceberg.sql(f"SELECT snapshot_id FROM {iceberg_table}.snapshots ORDER BY committed_at LIMIT 1").collect()
    require_kept(iceberg, iceberg_table, f"VERSION AS OF {first.snapshot_id}")


def test_for_ever(iceberg: SparkSession, iceberg_table: str) -> None:
    """Longer than there have been days is no error."""
    iceberg.sql(f"CREATE TABLE {iceberg_table} (id BIGINT, k INT) USING iceberg")
    iceberg.sql(f"INSERT INTO {iceberg_table} VALUES (1, 2), (3, 4)")
    hive_bitmap.build(iceberg, iceberg_table, ["k"], keep_removed="1000000 days")
    iceberg.sql(f"INSERT OVERWRITE {iceberg_table} VALUES (5, 6)")
    [report] = hive_bitmap.rebuild(iceberg, iceberg_table)
    assert report.files_read == 1 and hive_bitmap.show(iceberg, iceberg_table)[0].gone > 0


def test_a_table_of_files_has_none(spark: SparkSession, database: str) -> None:
    spark.sql(f"CREATE TABLE t USING parquet AS {ROWS}")
    with pytest.raises(InvalidProperty, match="only Delta and Iceberg keep"):
        hive_bitmap.build(spark, "t", ["k"], keep_removed="7 days")
    hive_bitmap.build(spark, "t", ["k"], name="i")
    for wrong in ("7 days", "a week"):
        with pytest.raises(InvalidProperty):
            hive_bitmap.set_properties(spark, "t", "i", {"keep_removed": wrong})
