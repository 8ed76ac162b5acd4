"""Keys that are too many to list: numbers and first groups are computed where the shards are merged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import hive_bitmap
from hive_bitmap.core.answering import key_merge
from hive_bitmap.core.planning import prices
from hive_bitmap.spark.catalyst import execution
from hive_bitmap.spark.reading import aggregates
from tests.asking import by_index, by_spark, difference, frame, indexed, require_alike, require_alike_now, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(3)

ROWS = """
SELECT CAST(IF(id % 11 = 0, NULL, id * id % 213) AS INT) AS k, CAST(id * id % 77 - 30 AS DECIMAL(12,2)) AS m,
  date_add(DATE'1969-11-01', CAST(id * id % 90 AS INT)) AS d, timestamp_micros(id % 70 * 1000003 - 50) AS ts,
  concat(IF(id % 3 = 0, 'é', 'z'), id * id % 97) AS s, CAST(NULL AS INT) AS none, id AS u,
  IF(id = 17, double('NaN'), id % 13) AS f, CAST(id % 5 AS INT) AS c,
  CAST(id % 4 AS INT) AS p
FROM range({start}, {end})
"""
NUMBERS = ["count(DISTINCT {0})", "count({0}), count(*), min({0}), count(DISTINCT {0}), max({0})"]
NUMBERED = [
    f"SELECT {numbers.format(column)} FROM t" for column in ("k", "m", "d", "ts", "s", "none") for numbers in NUMBERS
]
NUMBERED += [
    f"SELECT count(DISTINCT k) AS n, max(k) FROM t WHERE {condition}"
    for condition in (
        "c = 3",
        "c IN (0, 1) AND s LIKE 'z%'",
        "k > 100",
        "p = 1",
        "p > 1 AND c <> 2",
        "k < 9 OR c = 1",
    )
]
NUMBERED += [
    "SELECT min(k), max(k) FROM t WHERE s = 'z4'",
    "SELECT count(k), max(k) FROM t",
    "SELECT count(DISTINCT k), count(DISTINCT s), min(d), count(*) FROM t WHERE c < 4",
    "SELECT count(DISTINCT kk) + 1 FROM (SELECT k AS kk FROM t WHERE p <> 2)",
]
FIRST = [
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 10",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k DESC LIMIT 3",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n, k NULLS LAST LIMIT 4 OFFSET 3",
    "SELECT k FROM t GROUP BY k ORDER BY count(*) DESC, k DESC NULLS FIRST LIMIT 5",
    "SELECT s, count(1) AS n, min(s), count(s) FROM t WHERE c = 2 GROUP BY s ORDER BY n DESC, s LIMIT 7",
    "SELECT u, count(*) AS n FROM t GROUP BY u ORDER BY n DESC, u DESC LIMIT 6",
    "SELECT kk, n * 2 FROM (SELECT k AS kk, count(*) AS n FROM t WHERE p <> 1 GROUP BY k) ORDER BY n DESC, kk LIMIT 9",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 900",
    "SELECT none, count(*) AS n FROM t GROUP BY none ORDER BY n DESC, none LIMIT 2",
]
BY_ALL_KEYS = [
    "SELECT d, sum(0) AS z, count(*) AS n FROM t GROUP BY d ORDER BY n DESC, d LIMIT 2",
    "SELECT k, sum(k), count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 3",
    "SELECT k, 7 / k AS x, count(*) AS n FROM t WHERE k > 0 GROUP BY k ORDER BY n DESC, k LIMIT 3",
    "SELECT count(DISTINCT k) AS n, max(k) FROM t WHERE c = 9",
    "SELECT count(DISTINCT f) FROM t",
    "SELECT count(DISTINCT k + 1) FROM t",
    "SELECT count(DISTINCT k) FILTER (WHERE k > 5) FROM t",
    "SELECT count(DISTINCT k), sum(k) FROM t",
    "SELECT p, count(DISTINCT k) FROM t GROUP BY p",
    "SELECT k, count(*) AS n FROM t GROUP BY k HAVING n > 2 ORDER BY n DESC, k LIMIT 5",
    "SELECT k, count(k) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 5",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k + 1 LIMIT 1000",
    "SELECT k + 1, count(*) AS n FROM t GROUP BY k + 1 ORDER BY n DESC, k + 1 LIMIT 5",
    "SELECT p, k, count(*) AS n FROM t GROUP BY p, k ORDER BY n DESC, k, p LIMIT 5",
    "SELECT f, count(*) AS n FROM t GROUP BY f ORDER BY n DESC, f LIMIT 5",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k",
]
TIED = [
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 10",
    "SELECT s FROM t GROUP BY s ORDER BY count(*) LIMIT 12",
]


@pytest.fixture(scope="module")
def made(spark: SparkSession, shared_database: str) -> Iterator[SparkSession]:
    with under(spark, {"spark.sql.shuffle.partitions": "1"}):
        spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) AS {ROWS.format(start=0, end=700)}")
        columns = ("k", "m", "d", "ts", "s", "none", "u", "f", "c")
        hive_bitmap.build(spark, "t", list(columns))
        spark.sql(f"INSERT INTO t {ROWS.format(start=700, end=1000)}")
        for column in columns:
            hive_bitmap.refresh(spark, "t", [column])
        yield spark


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns whose keys were merged, however few they are."""
    merged: list[str] = []
    monkeypatch.setattr(key_merge, "FEW_KEYS", -1)
    compute = aggregates._merged
    monkeypatch.setattr(
        aggregates,
        "_merged",
        lambda spark, lookups, key, *more: merged.append(key) or compute(spark, lookups, key, *more),
    )
    return merged


@pytest.mark.parametrize("query", contract([*NUMBERED, *FIRST], NUMBERED[1], FIRST[0]))
def test_merged_keys_answer(made: SparkSession, query: str, merges: list[str]) -> None:
    wanted = by_spark(made, query)
    assert not difference(by_index(made, query, "index only"), wanted, ordered="ORDER BY" in query)
    assert merges


@pytest.mark.parametrize("query", BY_ALL_KEYS)
def test_what_is_not_known_to_be_alike_is_answered_by_all_keys(
    made: SparkSession, query: str, merges: list[str]
) -> None:
    require_alike(made, query, "index only", ordered="ORDER BY" in query)
    assert not merges


@pytest.mark.parametrize("query", TIED)
def test_of_groups_that_tie_any_are_first(made: SparkSession, query: str, merges: list[str]) -> None:
    whole = query.partition(" LIMIT")[0].replace("SELECT s FROM", "SELECT s, count(*) AS n FROM")
    counts = {row[0]: row[1] for row in made.sql(whole).collect()}
    with under(made, {"hive_bitmap.enabled": "false"}):
        wanted = [counts[row[0]] for row in made.sql(query).collect()]
    with indexed(made, "index only"):
        found = [counts[row[0]] for row in frame(made, query).collect()]
    assert found == wanted and merges


@pytest.mark.parametrize("rows", [2, 5, 500])
@pytest.mark.parametrize(
    "query", ["SELECT DISTINCT k FROM t", "SELECT s FROM t WHERE c = 1 GROUP BY s", "SELECT DISTINCT u FROM t"]
)
def test_some_groups_are_any(made: SparkSession, query: str, rows: int, merges: list[str]) -> None:
    groups = {row[0] for row in made.sql(query).collect()}
    with indexed(made, "index only"):
        found = [row[0] for row in frame(made, f"{query} LIMIT {rows}").collect()]
    assert len(set(found)) == len(found) == min(rows, len(groups)) and set(found) <= groups and merges


def test_much_of_an_index_is_merged_in_a_task(
    made: SparkSession, merges: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregates, "DRIVER_INDEX_BYTES", -1)
    require_alike(made, "SELECT count(DISTINCT s), max(s) FROM t WHERE c < 3", "index only")
    assert merges


def test_a_limited_and_an_unlimited_aggregation_of_one_table(made: SparkSession, merges: list[str]) -> None:
    groups = "SELECT k, count(*) AS n FROM t GROUP BY k"
    first = [f"({groups} ORDER BY n DESC, k LIMIT {rows})" for rows in (2, 7)]
    for query in (
        f"{groups} UNION ALL {first[0]}",
        f"{first[0]} UNION ALL {first[1]}",
        f"{first[1]} UNION ALL {groups} UNION ALL {first[0]}",
        f"SELECT a.k, a.n, b.n FROM ({groups}) a JOIN {first[0]} b ON a.n >= b.n",
        f"WITH g AS ({groups}) SELECT * FROM (SELECT * FROM g ORDER BY n DESC, k LIMIT 3) UNION ALL SELECT * FROM g",
    ):
        require_alike(made, query, "index only")


def test_files_that_come_and_go(spark: SparkSession, database: str, merges: list[str]) -> None:
    """Files that are not fresh are Spark's, and so are the keys then."""
    spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) AS {ROWS.format(start=0, end=400)}")
    for column in ("k", "s", "c"):
        hive_bitmap.build(spark, "t", [column])
    queries = [
        "SELECT count(DISTINCT k), min(k), max(k) FROM t",
        "SELECT count(DISTINCT k) FROM t WHERE c = 1",
        "SELECT s, count(*) AS n FROM t WHERE p > 0 GROUP BY s ORDER BY n DESC, s LIMIT 5",
    ]
    for change in (
        "",
        "ALTER TABLE t DROP PARTITION (p = 2)",
        f"INSERT INTO t {ROWS.format(start=400, end=440)}",
        "INSERT OVERWRITE t PARTITION (p = 1) SELECT * EXCEPT (p) FROM src",
        "INSERT OVERWRITE t SELECT * FROM t WHERE false",
    ):
        if "src" in change:
            spark.sql(f"CREATE TABLE src USING parquet AS {ROWS.format(start=5, end=9)}")
        spark.sql(change) if change and "FROM t" not in change else None
        for query in queries:
            require_alike_now(spark, query)


@pytest.fixture
def read_by_spark(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files that Spark had to read for each answer."""
    files: list[int] = []
    counts = execution.counts

    def noted(spark: SparkSession, decision: Any) -> Any:
        answer = counts(spark, decision)
        files.append(-1 if answer is None else len(answer[1]))
        return answer

    monkeypatch.setattr(execution, "counts", noted)
    return files


def test_what_is_sure_needs_no_new_file(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch, read_by_spark: list[int]
) -> None:
    """Groups, or a row, that an indexed file certainly has; also if other files are new, changed or gone."""
    monkeypatch.setattr(prices, "SPARK_BYTE", {"parquet": 1e-3})
    spark.sql(f"CREATE TABLE t USING parquet AS {ROWS.format(start=0, end=400)}")
    hive_bitmap.build(spark, "t", ["k", "c", "u"])
    spark.sql(f"INSERT INTO t {ROWS.format(start=400, end=440)}")

    def ask(query: str, files: int) -> list[Any]:
        read_by_spark.clear()
        with indexed(spark, "" if "EXISTS" in query else "index only"):
            rows = frame(spark, query).collect()
        assert read_by_spark == [files], query
        return rows

    for condition in ("", " WHERE c = 2"):
        groups = {row[0] for row in spark.sql(f"SELECT DISTINCT k FROM t{condition}").collect()}
        for rows, files in ((2, 0), (5, 0), (999, 2)):
            found = [row[0] for row in ask(f"SELECT DISTINCT k FROM t{condition} LIMIT {rows}", files)]
            assert len(found) == len(set(found)) == min(rows, len(groups)) and set(found) <= groups
    assert ask("SELECT EXISTS (SELECT * FROM t WHERE u = 399) AS e", 0) == [(True,)]
    *indexed_files, new = sorted(
        (Path(urlsplit(name).path) for name in spark.table("t").inputFiles()), key=os.path.getmtime
    )
    with indexed(spark, "index only"):
        planned = frame(spark, "SELECT DISTINCT k FROM t WHERE c = 2 LIMIT 3")
        planned._jdf.queryExecution().executedPlan()
        for file in indexed_files:
            shutil.copyfile(new, file)
            file.with_name(f".{file.name}.crc").unlink()
        found = {row[0] for row in planned.collect()}
    spark.catalog.refreshTable("t")
    assert len(found) == 3 and found <= {row[0] for row in spark.sql("SELECT k FROM t WHERE c = 2").collect()}


def test_the_question_of_a_limit_has_its_order(made: SparkSession, questions: list[Any]) -> None:
    import json

    with indexed(made):
        for query in (FIRST[0], FIRST[1], FIRST[2], NUMBERED[0], BY_ALL_KEYS[-1]):
            frame(made, query)._jdf.queryExecution().optimizedPlan()
    asked = [json.loads(question.text())["scans"][0]["aggregate"] for question in questions]
    assert [aggregate.get("top") for aggregate in asked] == [
        {"rows": 10, "first": "most", "ties": "smallest"},
        {"rows": 3, "first": "most", "ties": "largest"},
        {"rows": 7, "first": "fewest", "ties": "smallest"},
        None,
        None,
    ]
    assert [aggregate.get("summaries") for aggregate in asked] == [None, None, None, ["k"], None]
