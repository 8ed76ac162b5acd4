"""The first groups by a sum, and distinct values by group, from merged keys: answers are plain Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.answering import group_summaries, key_merge
from hive_bitmap.spark.reading import aggregates
from tests.asking import by_index, by_spark, difference, under
from tests.contract import contract
from tests.spark.catalyst.test_sums import is_answered, outcome, require_alike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = """
SELECT CAST(IF(id % 11 = 0, NULL, id * id % 213) AS INT) AS k, concat(IF(id % 3 = 0, 'é', 'z'), id * id % 97) AS s,
  CAST(id % 5 AS INT) AS c,
  CAST(IF(id % 7 = 0 OR id % 213 < 20, NULL, (id * 37 % 1000 - 400) * 0.01) AS DECIMAL(10,2)) AS x,
  id * 3 - 900 AS n, IF(id * id % 213 = 4, IF(id % 2 = 0, 9223372036854775807L, -9223372036854775807L), id) AS huge,
  CAST(id % 3 AS INT) AS p
FROM range({start}, {end})
"""
AGGREGATES = "x, n, huge, sum(x * c) AS xc, sum(huge - 1) AS less"
SUMS = [
    "SELECT k, sum(x) AS t FROM t GROUP BY k ORDER BY t DESC, k LIMIT 10",
    "SELECT k, sum(x) AS t, avg(n), count(*), max(x) FROM t GROUP BY k ORDER BY t, k DESC LIMIT 5",
    "SELECT k, sum(x) AS t FROM t GROUP BY k ORDER BY t NULLS LAST, k NULLS LAST LIMIT 4 OFFSET 3",
    "SELECT k, sum(x) AS t, count(x) FROM t GROUP BY k ORDER BY t DESC NULLS FIRST, k DESC LIMIT 40",
    "SELECT k FROM t WHERE p = 1 GROUP BY k ORDER BY sum(n) DESC, k LIMIT 3",
    "SELECT k, sum(n) AS t FROM t WHERE k > 20 GROUP BY k ORDER BY t DESC, k LIMIT 6",
    "SELECT k, try_sum(n) FROM t GROUP BY k ORDER BY sum(n) DESC, k LIMIT 2",
    "SELECT kk, t FROM (SELECT k AS kk, sum(y) AS t FROM (SELECT k, n AS y FROM t) GROUP BY k) ORDER BY t, kk LIMIT 8",
    "SELECT k, sum(x * c) AS t, max(n) FROM t GROUP BY k ORDER BY t DESC, k LIMIT 7",
    "SELECT k, sum(r) AS t, min(r) FROM (SELECT k, c * x AS r FROM t) GROUP BY k ORDER BY t NULLS LAST, k LIMIT 5",
]
BY_ALL_KEYS = [  # what needs all groups
    "SELECT k, sum(x) AS t FROM t GROUP BY k ORDER BY t / 2 DESC, k LIMIT 3",
    "SELECT k, sum(x) AS t, sum(y) FROM (SELECT k, x, n AS y FROM t) GROUP BY k ORDER BY sum(y + 1) DESC, k LIMIT 8",
    "SELECT k, sum(x) AS t, sum(k) FROM t GROUP BY k ORDER BY t DESC, k LIMIT 3",
    "SELECT k, sum(x) AS t, sum(n) / count(x) FROM t GROUP BY k ORDER BY t DESC, k LIMIT 3",
    "SELECT k, sum(x * c) AS t, sum(x * c + 1) FROM t GROUP BY k ORDER BY t DESC, k LIMIT 3",
    "SELECT k, sum(x) AS t FROM t GROUP BY k HAVING sum(x) > 0 ORDER BY t DESC, k LIMIT 3",
    "SELECT k, c, sum(x) AS t FROM t GROUP BY k, c ORDER BY t DESC, k, c LIMIT 3",
]
DISTINCT = [
    "SELECT c, count(DISTINCT k) FROM t GROUP BY c",
    "SELECT c, count(DISTINCT k), count(k), count(*), min(k), max(k) FROM t GROUP BY c",
    "SELECT k, count(DISTINCT c) AS n FROM t GROUP BY k HAVING n > 1",
    "SELECT c, count(DISTINCT k) FROM t WHERE k > 100 AND c <> 2 GROUP BY c",
    "SELECT c, count(DISTINCT k) FROM t WHERE p = 2 GROUP BY c ORDER BY 2 DESC, c LIMIT 2",
]


@pytest.fixture(scope="module", params=["BITMAP", "AGGREGATE"])
def made(request: pytest.FixtureRequest, spark: SparkSession, shared_database: str) -> Iterator[str]:
    with under(spark, {"spark.sql.shuffle.partitions": "1"}):
        spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) AS {ROWS.format(start=0, end=700)}")
        hive_bitmap.build(spark, "t", ["k"], aggregates=AGGREGATES, type=request.param)
        hive_bitmap.build(spark, "t", [["k", "c"]], type=request.param, name="pairs")
        spark.sql(f"INSERT INTO t {ROWS.format(start=700, end=1000)}")
        hive_bitmap.refresh(spark, "t")
        yield request.param
        for name in ("k", "pairs"):
            hive_bitmap.drop(spark, "t", name)
        spark.sql("DROP TABLE t")


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was merged, however few keys there are."""
    merged: list[str] = []
    for module in (key_merge, group_summaries):
        monkeypatch.setattr(module, "FEW_KEYS", -1)
    for name in ("_merged", "_summaries"):
        compute = getattr(aggregates, name)
        monkeypatch.setattr(
            aggregates, name, lambda *args, name=name, compute=compute: merged.append(name) or compute(*args)
        )
    return merged


@pytest.mark.parametrize("query", contract([*SUMS, *DISTINCT], SUMS[0], DISTINCT[0]))
def test_merged_keys_answer(spark: SparkSession, made: str, query: str, merges: list[str]) -> None:
    for _ in range(2):  # the second time from memory
        require_alike(spark, query)
    assert merges and set(merges) == {"_summaries" if query in DISTINCT else "_merged"}
    assert is_answered(spark, query)


@pytest.mark.parametrize("query", BY_ALL_KEYS)
def test_what_needs_all_groups(spark: SparkSession, made: str, query: str, merges: list[str]) -> None:
    require_alike(spark, query)
    assert "_merged" not in merges


@pytest.mark.parametrize("order", ["", " DESC"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_sum_that_may_overflow_in_a_group_that_is_left_out(
    spark: SparkSession, made: str, merges: list[str], ansi: str, order: str
) -> None:
    """The group with the largest bound is always kept, so the JVM sees that Spark has to aggregate."""
    with under(spark, {"spark.sql.ansi.enabled": ansi}):
        for text in (
            f"SELECT k, sum(x) AS t, sum(huge) FROM t GROUP BY k ORDER BY t{order}, k LIMIT 2",
            f"SELECT k, sum(huge) AS t FROM t GROUP BY k ORDER BY t{order}, k LIMIT 2",
            f"SELECT k, sum(huge - 1) AS t FROM t GROUP BY k ORDER BY t{order}, k LIMIT 2",
        ):
            require_alike(spark, text)
            assert outcome(spark, text) is not None
    assert "_merged" in merges


def test_new_files_are_sparks(spark: SparkSession, database: str, merges: list[str]) -> None:
    spark.sql(f"CREATE TABLE t USING parquet AS {ROWS.format(start=0, end=300)}")
    hive_bitmap.build(spark, "t", ["k"], aggregates="x, n")
    hive_bitmap.build(spark, "t", [["k", "c"]])
    spark.sql(f"INSERT INTO t {ROWS.format(start=300, end=400)}")
    for query in (SUMS[0], DISTINCT[0]):
        wanted = by_spark(spark, query)
        assert not difference(by_index(spark, query, "index only"), wanted, ordered="ORDER BY" in query)
    assert not merges
