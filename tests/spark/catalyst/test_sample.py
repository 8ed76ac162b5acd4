"""In a table of many partitions, some are looked up first, if looking up all of them may not pay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.index import lookup
from hive_bitmap.core.planning import prices
from tests.asking import by_index, by_spark, difference, indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 24  # of 10,000 rows, so that footers weigh little


@pytest.fixture(scope="module")
def made(spark: SparkSession, shared_database: str) -> SparkSession:
    """Create a table: conditions on `half` are not selective, on `rare` they are; `one` is 0 in four partitions."""
    spark.sql(
        "CREATE TABLE t USING parquet PARTITIONED BY (p) AS "
        "SELECT id, id div 24 % 2 AS half, id % 99991 AS rare, int(p > 3) AS one, p "
        f"FROM (SELECT id, id % {PARTITIONS} AS p FROM range(240000))"
    )
    hive_bitmap.build(spark, "t", ["half", "rare", "one"])
    return spark


@pytest.fixture
def table(made: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Return the same table, with prices at which a lookup pays."""
    monkeypatch.setattr(prices, "DIRECT_ROW", 1e-3)  # as if it were large
    for price in ("SPARK_BYTE", "DIRECT_BYTE"):
        monkeypatch.setattr(prices, price, {"parquet": 1e-3})
    return made


@pytest.mark.parametrize(
    ("condition", "action", "detail"),
    [
        ("half = 1", "left alone", f"in 8 of {PARTITIONS} partitions"),
        ("rare = 3", "narrowed", ""),
        ("one = 0", "narrowed", ""),
        ("half = 1 AND p = 5", "left alone", "rows are selected, which lie in 2 of 2 blocks"),
    ],
)
def test_what_does_not_pay_is_told_from_a_sample(table: SparkSession, condition: str, action: str, detail: str) -> None:
    text = f"SELECT id FROM t WHERE {condition}"
    with indexed(table):
        [one] = hive_bitmap.explain(text, table).relations
    assert one.action == action
    assert one.reason == ("not_selective" if action == "left alone" else "")
    assert detail in one.detail and ("partitions" in one.detail) == ("partitions" in detail)
    assert not difference(by_index(table, text), by_spark(table, text))


def test_only_the_sample_is_looked_up(table: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    find = lookup.find

    def seen(*args: object, **more: object) -> object:
        read.append(args)
        return find(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(lookup, "find", seen)
    with indexed(table):
        table.sql("SELECT id FROM t WHERE half = 0")._jdf.queryExecution().optimizedPlan()
    sampled = len(read)
    read.clear()
    with indexed(table, "rows"):
        table.sql("SELECT id FROM t WHERE half = 0")._jdf.queryExecution().optimizedPlan()
    assert (sampled, len(read)) == (1, 1)  # of the partitions of the sample, and of all, which share a shard
