"""Indexes that follow Delta and Iceberg tables: each kind of write has its new files indexed, and so has a query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.lake, pytest.mark.turn(2)]
SECONDS = 120
COUNT = "SELECT count(*), max(k) FROM {t} WHERE k IN (3, 70, 900)"
ROWS = "SELECT id, CAST(id % {keys} AS INT) AS k, md5(CAST(id AS STRING)) AS s FROM range({first}, {end})"
# Each leaves files that the index of before does not have.
WRITES = {
    "insert": "INSERT INTO {t} " + ROWS.format(keys=100, first=10_000, end=12_000),
    "insert overwrite": "INSERT OVERWRITE {t} " + ROWS.format(keys=90, first=0, end=5_000),
    "update": "UPDATE {t} SET k = 900 WHERE k = 70",
    "merge": (
        "MERGE INTO {t} USING (SELECT * FROM {t} WHERE k = 3) AS n ON {t}.id = n.id "
        "WHEN MATCHED THEN UPDATE SET k = 900 WHEN NOT MATCHED THEN INSERT *"
    ),
}


@pytest.fixture
def following(spark: SparkSession) -> Iterator[SparkSession]:
    yield from _enabled(spark)


@pytest.fixture
def following_iceberg(iceberg: SparkSession) -> Iterator[SparkSession]:
    yield from _enabled(iceberg)


def _enabled(spark: SparkSession) -> Iterator[SparkSession]:
    hive_bitmap.enable(spark)
    spark.conf.unset("hive_bitmap.enabled")
    yield spark
    hive_bitmap.disable(spark)


def make(spark: SparkSession, table: str, provider: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT, s STRING) USING {provider}")
    spark.sql(f"INSERT INTO {table} {ROWS.format(keys=100, first=0, end=10_000)}")
    hive_bitmap.build(spark, table, ["k"], name="ik", auto_refresh=True, refresh_interval="1s")


def require_followed(spark: SparkSession, table: str) -> None:
    assert hive_bitmap.refreshed(spark, SECONDS)
    (found,) = hive_bitmap.show(spark, table)
    assert not found.problem and (found.unindexed, found.stale, found.gone) == (0, 0, 0) and found.fresh
    counted = spark.sql(COUNT.format(t=table)).collect()
    with asking.under(spark, asking.OFF):
        assert counted == spark.sql(COUNT.format(t=table)).collect()


@pytest.mark.parametrize("write", WRITES)
def test_writes_to_delta_are_followed(following: SparkSession, database: str, write: str) -> None:
    make(following, "t", "delta")
    following.sql(WRITES[write].format(t="t"))
    require_followed(following, "t")


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("iceberg_table", ["spark_catalog", "lake"], indirect=True)
def test_writes_to_iceberg_are_followed(following_iceberg: SparkSession, iceberg_table: str, write: str) -> None:
    make(following_iceberg, iceberg_table, "iceberg")
    following_iceberg.sql(WRITES[write].format(t=iceberg_table))
    require_followed(following_iceberg, iceberg_table)


def test_optimize_restore_and_data_frames_are_followed(following: SparkSession, database: str) -> None:
    make(following, "t", "delta")
    following.table("t").limit(10).write.insertInto("t")
    require_followed(following, "t")
    following.table("t").limit(20).write.mode("append").format("delta").saveAsTable("t")
    require_followed(following, "t")
    following.table("t").limit(30).writeTo("t").append()
    require_followed(following, "t")
    following.sql("OPTIMIZE t")
    require_followed(following, "t")
    following.sql("RESTORE TABLE t TO VERSION AS OF 1")
    require_followed(following, "t")


def test_what_was_written_elsewhere_is_found_by_a_query(following: SparkSession, database: str) -> None:
    make(following, "t", "delta")
    with asking.under(following, {"hive_bitmap.auto_refresh": "false"}):
        following.sql(WRITES["insert"].format(t="t"))
    (found,) = hive_bitmap.show(following, "t")
    assert found.unindexed
    time.sleep(1.1)  # the interval
    past = "SELECT id FROM t VERSION AS OF 1 WHERE k = 3"
    with asking.under(following, {"hive_bitmap.strategy": "blocks"}):
        [of_before] = hive_bitmap.explain(past, following).relations
        [of_now] = hive_bitmap.explain("SELECT id FROM t WHERE k = 3", following).relations
    assert of_before.unindexed == "" and of_now.unindexed.startswith("2 files (")
    require_followed(following, "t")
