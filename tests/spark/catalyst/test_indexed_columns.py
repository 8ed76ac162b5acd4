"""Python is not asked again about a scan that tests no indexed column, until indexes change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from tests.asking import indexed, require_alike_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def asked(spark: SparkSession, database: str, questions: list[Any]) -> Iterator[list[Any]]:
    """Return the questions to Python about a table `t` with an index of `K`, while the strategy is `blocks`."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT id, int(id % 7) AS K, int(id % 5) AS j FROM range(2000)")
    hive_bitmap.build(spark, "t", ["K"])
    with indexed(spark, "blocks"):
        yield questions


def test_it_is_asked_about_once(spark: SparkSession, asked: list[Any]) -> None:
    for _ in range(3):
        require_alike_now(spark, "SELECT id FROM t WHERE j = 3")
    assert len(asked) == 1
    require_alike_now(spark, "SELECT id FROM t WHERE J > 3 AND k = 1")
    assert len(asked) == 2


def test_counts_are_asked_about(spark: SparkSession, asked: list[Any]) -> None:
    require_alike_now(spark, "SELECT id FROM t WHERE j = 3")
    require_alike_now(spark, "SELECT count(*) FROM t")
    assert len(asked) == 2


def test_a_new_index_has_it_asked_again(spark: SparkSession, asked: list[Any]) -> None:
    require_alike_now(spark, "SELECT id FROM t WHERE j = 3")
    hive_bitmap.build(spark, "t", ["j"])
    before = len(asked)
    require_alike_now(spark, "SELECT id FROM t WHERE j = 3")
    [said] = hive_bitmap.explain("SELECT id FROM t WHERE j = 3", spark).relations
    assert len(asked) > before and said.action == "narrowed"


def test_explain_still_tells_why(spark: SparkSession, asked: list[Any]) -> None:
    require_alike_now(spark, "SELECT id FROM t WHERE j = 3")
    [said] = hive_bitmap.explain("SELECT id FROM t WHERE j = 3", spark).relations
    assert (said.action, said.reason) == ("left alone", "not_tested")


def test_keys_of_a_join_are_asked_about(spark: SparkSession, asked: list[Any]) -> None:
    spark.sql("CREATE TABLE d USING parquet AS SELECT int(id) AS k, concat('n', id) AS name FROM range(3)")
    query = "SELECT t.id FROM t JOIN d ON t.k = d.k WHERE d.name = 'n1'"
    require_alike_now(spark, "SELECT id FROM t WHERE j = 3")
    before = len(asked)
    require_alike_now(spark, query)
    assert len(asked) > before
