"""MIN and MAX of a column that has an index, by its ends alone; and conditions that list many values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.answering import tally
from hive_bitmap.spark.reading import aggregates
from tests.asking import by_index, by_spark, difference, require_alike, require_alike_now, told, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(3)

ROWS = """
SELECT CAST(IF(id % 11 = 0, NULL, id * 7 % 1000) AS INT) AS k, CAST(id - 500 AS DECIMAL(12,2)) AS m,
  date_add(DATE'1969-11-01', CAST(id % 400 AS INT)) AS d, timestamp_micros(id * 1000003 - 500000000) AS ts,
  CAST(timestamp_micros(id * 999983) AS TIMESTAMP_NTZ) AS n, concat(IF(id % 3 = 0, 'é', 'z'), id % 97) AS s,
  CAST(NULL AS INT) AS none, CAST(concat('c', id % 5) AS CHAR(4)) AS ch, IF(id = 17, double('NaN'), id % 13) AS f,
  CAST(id % 4 AS INT) AS p
FROM range({start}, {end})
"""
COLUMNS = ("k", "m", "d", "ts", "n", "s", "none", "ch", "f")
SELECTED = ["min({0}), max({0})", "max({0})", "count(*), min({0})", "count(1), max({0}), min({0}), max({0})"]
BY_ENDS = [f"SELECT {selected.format(column)} FROM t" for column in COLUMNS[:7] for selected in SELECTED] + [
    "SELECT min(k), max(k), count(*) FROM t WHERE k > 300",
    "SELECT min(k), max(k) FROM t WHERE k IN (7, 14, 800) OR k IS NULL",
    "SELECT count(*), max(k) FROM t WHERE k IS NULL",
    "SELECT max(k), count(*) FROM t WHERE k < -5",
    "SELECT min(d) + INTERVAL 1 DAY, upper(max(d)) FROM t WHERE d < DATE'1970-02-01'",
    "SELECT max(s), min(s), count(*) FROM t WHERE s LIKE 'z9%'",
    "SELECT min(k), max(s), count(*), max(ts) FROM t",
    "SELECT max(DISTINCT k), min(DISTINCT k) FROM t",
]
BY_ALL_KEYS = [
    "SELECT min(k), max(k) FROM t WHERE s = 'z5'",
    "SELECT p, max(k) FROM t GROUP BY p",
    "SELECT max(k + 1), min(-k) FROM t",
    "SELECT max(k) FILTER (WHERE k < 50), min(k) FROM t",
    "SELECT count(k), max(k) FROM t",
    "SELECT min(ch), max(ch), min(f), max(f) FROM t",
]


@pytest.fixture(scope="module")
def t(spark: SparkSession, shared_database: str) -> Iterator[SparkSession]:
    with under(spark, {"spark.sql.shuffle.partitions": "1"}):
        spark.sql(f"CREATE TABLE t USING parquet AS {ROWS.format(start=0, end=1000)}")
        spark.sql(f"INSERT INTO t {ROWS.format(start=1000, end=1400)}")
        hive_bitmap.build(spark, "t", list(COLUMNS))
        yield spark


@pytest.mark.parametrize("query", contract(BY_ENDS, BY_ENDS[0], "SELECT min(k), max(s), count(*), max(ts) FROM t"))
def test_the_ends_of_an_index_answer(t: SparkSession, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = by_spark(t, query)
    monkeypatch.delattr(tally, "_sums")
    monkeypatch.delattr(tally, "_by_overlap")
    assert told(t, query, "index only") == [("t", "answered")]
    assert not difference(by_index(t, query, "index only"), wanted)


@pytest.mark.parametrize("query", BY_ALL_KEYS)
def test_what_the_ends_do_not_tell_is_answered_by_all_keys(
    t: SparkSession, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_alike(t, query, "index only")
    monkeypatch.setattr(aggregates, "extremes", None)
    require_alike(t, query, "index only")


def test_files_that_come_and_go(spark: SparkSession, database: str) -> None:
    """The shard still has the keys of a file that is gone, and none of one that is new."""
    spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) AS {ROWS.format(start=0, end=400)}")
    hive_bitmap.build(spark, "t", ["k", "ts", "s"])
    queries = [
        "SELECT count(*), min(k), max(k) FROM t",
        "SELECT min(ts), max(s) FROM t",
        "SELECT min(ts), max(ts), count(*) FROM t WHERE p > 1",
        "SELECT p, min(k), max(k), count(*) FROM t WHERE p <> 3 GROUP BY p",
    ]
    for change in (
        "INSERT INTO t SELECT -5, m, d, ts - INTERVAL 9 DAY, n, 'zz', none, ch, f, p FROM t LIMIT 3",
        "ALTER TABLE t DROP PARTITION (p = 2)",
        "INSERT OVERWRITE t PARTITION (p = 1) SELECT 4, m, d, ts, n, s, none, ch, f FROM t WHERE p = 0",
        "INSERT OVERWRITE t SELECT * FROM t WHERE false",
    ):
        spark.sql(change) if "FROM t" not in change else _from_copy(spark, change)
        for query in queries:
            require_alike_now(spark, query)


def _from_copy(spark: SparkSession, change: str) -> None:
    """Execute an INSERT that reads the table that it writes."""
    spark.sql("DROP TABLE IF EXISTS copied")
    spark.sql("CREATE TABLE copied USING parquet AS SELECT * FROM t")
    into, _, rest = change.partition("SELECT")
    spark.sql(f"{into} SELECT {rest.replace('FROM t', 'FROM copied')}")


@pytest.mark.parametrize("count", [20_000, 20_001])
def test_a_list_that_is_too_long_is_sparks(t: SparkSession, count: int) -> None:
    values = ", ".join(str(number * 3) for number in range(count))
    for condition in (f"k IN ({values})", f"k NOT IN ({values})"):
        query = f"SELECT count(*) FROM t WHERE {condition}"
        wanted = by_spark(t, query)
        assert not difference(by_index(t, query, "index only"), wanted)
        answered = told(t, query, "index only") == [("t", "answered")]
        assert answered == (count == 20_000)


def test_a_long_list_is_shown_cut_short(t: SparkSession) -> None:
    values = ", ".join(map(str, range(3000)))
    explanation = str(hive_bitmap.explain(f"SELECT count(*) FROM t WHERE k IN ({values}) AND d IS NOT NULL", t))
    assert ".. 3000 in all" in explanation
    assert "2999" not in explanation.partition("==")[0]
