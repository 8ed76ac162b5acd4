"""Aggregates that the index answers in plain Spark: rows, names and types are its own, of fresh and stale files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

import hive_bitmap
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.registry import catalog
from tests.asking import OFF, by_index, by_spark, difference, indexed, require_alike, told, under
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

COLUMNS = "k int, s string, d date, m decimal(7,2), b bigint, f double, flag boolean, other int"
ROWS = 900

ANSWERED = """
SELECT count(*) FROM t
SELECT count(*) AS n, count(1), count(k) FROM t WHERE k > 3
SELECT COUNT(*) + 1 FROM t WHERE k = 12345
SELECT count(k), count(DISTINCT k), min(k), max(k), sum(k), avg(k) FROM t
SELECT sum(m), avg(m), min(m), max(m) FROM t WHERE s LIKE 'a%'
SELECT sum(b), avg(k) a FROM t WHERE k IS NULL
SELECT k, count(*) FROM t GROUP BY k
SELECT k, count(*) n FROM t x WHERE x.s IN ('a', 'b') AND NOT x.flag GROUP BY x.k ORDER BY n DESC, k LIMIT 3
SELECT k AS key, sum(k), avg(k), count(k), count(DISTINCT k), min(k) FROM t GROUP BY k HAVING count(*) > 40
SELECT k AS key, count(*) n FROM t GROUP BY k HAVING n > 40 AND key > 1 ORDER BY 1
SELECT s, max(k) FROM t GROUP BY 1 ORDER BY max(k) DESC, s
SELECT s, d, count(*) FROM t GROUP BY s, d
SELECT k, s, d, count(*) FROM t WHERE k < 2 GROUP BY k, s, d
SELECT d, s, sum(m) FROM t WHERE d >= '2024-01-05' GROUP BY ALL
SELECT flag, k, count(*) c FROM t WHERE s = 'a' OR m > 0 GROUP BY flag, k
SELECT flag, avg(m), sum(m), count(m) FROM t GROUP BY flag
SELECT year(d) * 100 + month(d) ym, count(*), min(d) FROM t GROUP BY year(d) * 100 + month(d)
SELECT upper(s), count(*) FILTER (WHERE k > 2), sum(k) FILTER (WHERE k > 2) FROM t GROUP BY upper(s)
SELECT count(DISTINCT k, s) FROM t
SELECT p, count(*) FROM t GROUP BY p
SELECT p, k, count(*) FROM t WHERE k < 3 GROUP BY p, k
SELECT p, sum(k) FROM t WHERE p > 1 GROUP BY p
SELECT f, count(*), count(f) FROM t GROUP BY f
SELECT count(DISTINCT f) FROM t WHERE k = 1
SELECT DISTINCT f FROM t
SELECT DISTINCT k FROM t WHERE flag
SELECT DISTINCT k, s FROM t ORDER BY k, s
SELECT DISTINCT k % 2 FROM t
SELECT 1 FROM t WHERE k = 3 LIMIT 1
SELECT min(k) FROM t GROUP BY k % 3
SELECT 'x', NULL, count(*) FROM t WHERE k > 100 GROUP BY s
SELECT CASE WHEN k > 3 THEN 'many' ELSE 'few' END, count(*) FROM t GROUP BY CASE WHEN k > 3 THEN 'many' ELSE 'few' END
SELECT sum(DISTINCT k), max(s) FROM t WHERE s > 'a'
SELECT k, b, count(*) n FROM t GROUP BY k, b HAVING max(b) IS NOT NULL ORDER BY n, k, b LIMIT 5
SELECT round(avg(k), 1), sum(k) / count(*) FROM t WHERE upper(s) = 'A'
SELECT `K`, COUNT(*) FROM t GROUP BY t.k
SELECT count(*) n FROM t HAVING n > 5
SELECT s, count(*) FROM t GROUP BY s ORDER BY count(*) ASC NULLS LAST, s DESC NULLS FIRST LIMIT 3
SELECT m, min(m), sum(m), avg(m), count(m) FROM t GROUP BY m ORDER BY m
""".strip().splitlines()

APART = """
SELECT min(k), max(b), count(DISTINCT m), avg(m), count(*) FROM t
SELECT flag, min(k) lo, count(DISTINCT b) n, avg(m), max(s) FROM t WHERE s > 'a' GROUP BY flag ORDER BY n DESC, lo, flag
SELECT flag, count(DISTINCT k), sum(b), max(d) FROM t WHERE k > 1000 GROUP BY flag
SELECT f, count(DISTINCT k), max(m) FROM t GROUP BY f
""".strip().splitlines()  # of keys of several indexes, each counted by itself

REFUSED = """
SELECT k, sum(other) FROM t GROUP BY k
SELECT sum(f) FROM t
SELECT max(f) FROM t
SELECT count(*) FROM t WHERE other = 1
SELECT k, s, m, count(*) FROM t GROUP BY k, s, m
SELECT k FROM t WHERE k = 1
SELECT * FROM t LIMIT 1
SELECT count(*) FROM t WHERE k IN (SELECT 1)
SELECT count(*) OVER () FROM t
SELECT nowhere FROM t LIMIT 1
""".strip().splitlines()


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table of two partitions with indexes on all columns but one, and files of each that no index knows."""
    name, folder = f"answers_{uuid4().hex[:6]}", tmp_path_factory.mktemp("answers")
    spark.sql(f"CREATE EXTERNAL TABLE {name} ({COLUMNS}) PARTITIONED BY (p int) STORED AS PARQUET LOCATION '{folder}'")
    for p in (1, 2):
        write(folder / f"p={p}", p, 0)
    spark.sql(f"MSCK REPAIR TABLE {name}")
    hive_bitmap.build(spark, name, ["k", "m", "b", "f", "flag", ["s", "d"]])
    yield name
    hive_bitmap.drop_table(spark, name)


def write(folder: Path, p: int, number: int) -> None:
    folder.mkdir(exist_ok=True)
    ids = range(p * 1000 + number * 100, p * 1000 + number * 100 + ROWS)
    rows = pa.table(
        {
            "k": pa.array([None if i % 11 == 0 else i * i % 7 for i in ids], pa.int32()),
            "s": pa.array([[None, "a", "b", "ab", "A", "é"][i * 7 % 13 % 6] for i in ids], pa.string()),
            "d": pa.array([date(2024, 1, 1) + timedelta(days=i % 40) for i in ids]),
            "m": pa.array([None if i % 5 == 0 else Decimal(i % 13 - 6) / 4 for i in ids], pa.decimal128(7, 2)),
            "b": pa.array([(i % 3 - 1) * 2**40 if i % 4 else None for i in ids], pa.int64()),
            "f": pa.array([[0.0, -0.0, float("nan"), 1.5, None][i % 5] for i in ids], pa.float64()),
            "flag": pa.array([[True, False, None][i % 3] for i in ids]),
            "other": pa.array(ids, pa.int32()),
        }
    )
    pq.write_table(rows, folder / f"{number}.parquet", row_group_size=200)


def of(table: str, query: str) -> str:
    """A query about the table of this module."""
    return query.replace("FROM t", f"FROM {table}").replace("t.k", f"{table}.k")


def actions(spark: SparkSession, query: str, strategy: str = "") -> list[str]:
    return [action for _, action in told(spark, query, strategy)]


@pytest.mark.parametrize("query", contract([*ANSWERED, *APART], APART[0]))
def test_answers_are_sparks(spark: SparkSession, table: str, query: str) -> None:
    text = of(table, query)
    assert actions(spark, text) == ["answered"]
    require_alike(spark, text, "", "rows", ordered="ORDER BY" in query)


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_not_certain_is_not_answered_by_the_index_alone(spark: SparkSession, table: str, query: str) -> None:
    from pyspark.errors import AnalysisException

    text = of(table, query)
    try:
        spark.sql(text)
    except AnalysisException as wanted:
        with indexed(spark, Strategy.INDEX_ONLY), pytest.raises(AnalysisException) as found:
            spark.sql(text)
        assert found.value.getCondition() == wanted.getCondition()
    else:
        assert "answered" not in actions(spark, text, Strategy.INDEX_ONLY)
        if "LIMIT" not in text:
            require_alike(spark, text, Strategy.INDEX_ONLY)


@pytest.mark.contract
def test_stale_new_and_gone_files_are_counted_as_they_are(spark: SparkSession, table: str) -> None:
    folder = Path(
        str(spark.sql(f"DESCRIBE EXTENDED {table} AS JSON").head()[0]).split('"location":"file:')[1].split('"')[0]
    )
    write(folder / "p=1", 3, 1)  # new
    write(folder / "p=2", 5, 0)  # stale
    catalog.clear_caches()
    spark.catalog.refreshTable(table)
    for query in ANSWERED[::3]:
        text = of(table, query)
        of_two_sets = "sum(DISTINCT k), max(s)" in query  # each would read these files by itself
        assert (actions(spark, text, Strategy.INDEX_ONLY) == ["answered"]) != of_two_sets, query
        require_alike(spark, text, Strategy.INDEX_ONLY, ordered="ORDER BY" in query)
    # two counts might see two states of these files
    text = of(table, APART[0])
    assert "answered" not in actions(spark, text, Strategy.INDEX_ONLY)
    require_alike(spark, text, Strategy.INDEX_ONLY)


def test_functions_of_partition_columns_prune_partitions(spark: SparkSession, table: str) -> None:
    for predicate, kept in (("p % 2 = 0", {"p=2"}), ("k = 1 AND NOT (p + 1 = 3 OR p IS NULL)", {"p=1"})):
        plan = hive_bitmap.plan(spark, table, f"k >= 0 AND {predicate}")
        assert set(plan.files["partition"].to_pylist()) == kept
        with under(spark, OFF):
            expected = spark.table(table).where(f"k >= 0 AND {predicate}").count()
        assert hive_bitmap.count(spark, table, f"k >= 0 AND {predicate}") == expected > 0


@pytest.mark.contract
def test_no_job_runs_where_the_index_holds_the_answer(spark: SparkSession, database: str, tmp_path: Path) -> None:
    write(tmp_path / "files", 1, 0)
    spark.sql(f"CREATE EXTERNAL TABLE quiet ({COLUMNS}) STORED AS PARQUET LOCATION '{tmp_path}/files'")
    hive_bitmap.build(spark, "quiet", ["k"])
    hive_bitmap.build(spark, "quiet", ["s"], aggregates="k")
    queries: tuple[str, ...] = (
        "SELECT k, count(*), sum(k) FROM quiet GROUP BY k HAVING count(*) > 3",
        "SELECT count(*) FROM quiet",
    )
    queries += ("SELECT DISTINCT s FROM quiet", "SELECT min(k), count(DISTINCT s) FROM quiet WHERE upper(s) = 'A'")
    queries += ("SELECT k, count(*) n FROM quiet WHERE length(s) = 1 GROUP BY k ORDER BY n DESC, k LIMIT 3",)
    queries += ("SELECT s, sum(k), avg(k), max(k) FROM quiet WHERE s <> 'b' GROUP BY s",)
    for number, query in enumerate(queries):
        assert actions(spark, query) == ["answered"], query
        spark.sparkContext.setJobGroup(f"quiet {number}", query)
        found = by_index(spark, query)
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(f"quiet {number}")
        assert len(jobs) <= ("HAVING" in query or "ORDER" in query), query  # which are Spark's, over a few rows
        wanted = by_spark(spark, query)
        assert spark.sparkContext.statusTracker().getJobIdsForGroup(f"quiet {number}")
        assert not difference(found, wanted, ordered="ORDER BY" in query)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_counts_by_key_name_columns_as_the_table_does(spark: SparkSession, table: str) -> None:
    found = hive_bitmap.group_counts(spark, table, "k = 1", ["K", "p"])
    assert found.column_names == ["k", "p", "count"]
    assert found.schema.field("k").type == pa.int32()
    with pytest.raises(NotFound, match="nowhere"):
        hive_bitmap.group_counts(spark, table, None, ["nowhere"])


@pytest.mark.parametrize("format", ["PARQUET", "ORC"])
@pytest.mark.parametrize("how", ["STORED AS", "USING"])
def test_a_table_whose_folder_is_gone_is_as_plain_spark_says(
    spark: SparkSession, database: str, tmp_path: Path, how: str, format: str
) -> None:
    location = tmp_path / "t"
    spark.sql(f"CREATE TABLE gone (k INT, id BIGINT) {how} {format} LOCATION '{location}'")
    spark.sql("INSERT INTO gone SELECT CAST(id % 50 AS INT), id FROM range(500)")
    hive_bitmap.build(spark, "gone", ["k"])
    assert hive_bitmap.count(spark, "gone", "k = 3") == 10
    location.rename(tmp_path / "elsewhere")
    answers = []
    for ask in (
        lambda: spark.table("gone").where("k = 3").count(),
        lambda: hive_bitmap.count(spark, "gone", "k = 3"),
        lambda: sum(hive_bitmap.group_counts(spark, "gone", "k = 3", ["k"])["count"].to_pylist()),
    ):
        with suppress(AnalysisException):  # it forgets the files, then refuses too
            spark.catalog.refreshTable("gone")
        try:
            answers.append(str(ask()))
        except AnalysisException as e:
            answers.append(str(e.getCondition()))
    assert len(set(answers)) == 1, answers
