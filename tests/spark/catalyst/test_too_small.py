"""Python is not asked again about a scan that was too small for a lookup to pay, until something about it changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from tests.asking import indexed, require_alike_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "SELECT id FROM t WHERE k = 3"
SUM = "SELECT sum(id) FROM t WHERE k = 3"


@pytest.fixture
def asked(spark: SparkSession, database: str, questions: list[Any]) -> Iterator[list[Any]]:
    """Return the questions to Python about a small table `t` with an index, while the rule is on."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT id, int(id % 7) AS k FROM range(2000)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark):
        yield questions


@pytest.mark.parametrize("text", [pytest.param(ROWS, marks=pytest.mark.contract), SUM])
def test_it_is_asked_about_once(spark: SparkSession, asked: list[Any], text: str) -> None:
    for _ in range(3):
        require_alike_now(spark, text)
    assert len(asked) == 1


def test_another_file_has_it_asked_again(spark: SparkSession, asked: list[Any]) -> None:
    require_alike_now(spark, ROWS)
    spark.sql("INSERT INTO t SELECT id, 3 FROM range(10)")
    require_alike_now(spark, ROWS)
    assert len(asked) == 2


def test_a_setting_has_it_asked_again(spark: SparkSession, asked: list[Any]) -> None:
    require_alike_now(spark, ROWS)
    spark.conf.set("hive_bitmap.strategy", "rows")
    require_alike_now(spark, ROWS)
    [said] = hive_bitmap.explain(ROWS, spark).relations
    assert said.action == "narrowed" and len(asked) > 2


def test_an_aggregation_that_the_index_may_answer_is_asked_about(spark: SparkSession, asked: list[Any]) -> None:
    require_alike_now(spark, "SELECT k FROM t WHERE k = 3")
    require_alike_now(spark, "SELECT count(k) FROM t WHERE k = 3")
    assert len(asked) == 2


def test_explain_still_tells_why(spark: SparkSession, asked: list[Any]) -> None:
    require_alike_now(spark, ROWS)
    [said] = hive_bitmap.explain(ROWS, spark).relations
    assert (said.action, said.reason) == ("left alone", "too_small")
