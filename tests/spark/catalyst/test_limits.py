"""Queries that take the first rows: Spark stops once it has them, so an index serves only where they are rare."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.planning import prices
from hive_bitmap.spark.catalyst.explanation import Relation, relations_of
from tests.asking import frame, indexed, require_alike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.asking import Query

PARTITIONS = 20  # of a file each
KEYS = "id div 20 % 2 AS half, id div 20 % 500 AS some, int(p = 0 AND id < 60) AS first"


@pytest.fixture(scope="module")
def made(spark: SparkSession, shared_database: str) -> SparkSession:
    """Create a table and a partitioned one: half of the rows, some in each file, and three rows of one file."""
    for name, by in (("flat", ""), ("parts", "PARTITIONED BY (p)")):
        rows = f"SELECT id, id % {PARTITIONS} AS p FROM range(0, 100000, 1, 1)"
        columns = f"id, {KEYS}, sha1(string(id)) AS note, p"
        spark.sql(f"CREATE TABLE {name} USING parquet {by} AS SELECT {columns} FROM ({rows})")
        hive_bitmap.build(spark, name, ["half", "some", "first"])
    return spark


@pytest.fixture
def tables(made: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Return the same tables, with prices as if they were large."""
    monkeypatch.setattr(prices, "SPARK_BYTE", {"parquet": 3e-7})
    return made


def relation(spark: SparkSession, query: Query) -> Relation:
    with indexed(spark):
        [one] = relations_of(frame(spark, query))
    return one


def narrowed_scans(spark: SparkSession, query: str) -> int:
    """Count the narrowed scans of a query as it is executed."""
    with indexed(spark):
        return str(frame(spark, query)._jdf.queryExecution().executedPlan()).count("NarrowedScan")


@pytest.mark.parametrize("table", ["flat", "parts"])
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM {} WHERE half = 1 LIMIT 5", "limit"),
        ("SELECT note, id + 1 FROM {} WHERE half = 1 LIMIT 5 OFFSET 3", "limit"),
        ("SELECT id FROM {} WHERE some = 3 AND half IN (0, 1) LIMIT 2", "limit"),
        ("SELECT * FROM {} WHERE some = 3", ""),
        ("SELECT * FROM {} WHERE some = 3 ORDER BY id LIMIT 2", ""),
        ("SELECT * FROM {} WHERE some = 3 LIMIT 500", ""),
        ("SELECT id, note FROM {} WHERE some = 3 AND length(note) > 3 LIMIT 1", "limit"),
        ("SELECT id, note FROM {} WHERE some = 3 AND length(note) > 3 LIMIT 90", ""),
        ("SELECT * FROM {} WHERE first = 1 LIMIT 2", ""),
        ("SELECT 1 AS one FROM {} WHERE half = 1 LIMIT 1", "limit"),
        ("SELECT 1 AS one FROM {} WHERE half = 2 LIMIT 1", ""),
        ("SELECT 7 AS x WHERE EXISTS (SELECT * FROM {} WHERE some = 3)", "limit"),
    ],
)
def test_a_limit_is_left_to_spark_where_it_finds_the_rows_at_once(
    tables: SparkSession, table: str, query: str, reason: str
) -> None:
    text = query.format(table)
    one = relation(tables, text)
    assert (one.reason, one.action == "left alone") == (reason, bool(reason)), one
    require_alike(tables, text, ordered=True)


@pytest.mark.parametrize("limit", [1, 60])
@pytest.mark.parametrize("condition", ["half = 1", "some = 3", "first = 1", "some = 3 OR first = 1"])
def test_the_first_rows_are_those_of_spark(tables: SparkSession, condition: str, limit: int) -> None:
    for table in ("flat", "parts"):
        text = f"SELECT * FROM {table} WHERE {condition} LIMIT {limit}"
        require_alike(tables, text, "", "rows", "blocks", ordered=True)
        with indexed(tables):
            taken = tables.table(table).where(condition).head(limit)
            is_empty = tables.table(table).where(condition).isEmpty()
        assert taken == tables.table(table).where(condition).head(limit) and not is_empty


@pytest.mark.contract
def test_a_limited_and_an_unlimited_scan_of_one_condition(tables: SparkSession, questions: list[Any]) -> None:
    whole, first = "SELECT id FROM flat WHERE some = 4", "(SELECT id FROM flat WHERE some = 4 LIMIT 2)"
    for text in (f"{whole} UNION ALL {first}", f"{first} UNION ALL {whole}"):
        assert [narrowed_scans(tables, text) for _ in range(3)] == [1, 1, 1]
        assert [narrowed_scans(tables, first), narrowed_scans(tables, whole)] == [0, 1]
        require_alike(tables, text)
    asked = [scan.get("limit") for scan in _scans(questions)]
    assert {None, 2} == set(asked)


def test_a_limit_is_asked_about_once(tables: SparkSession, questions: list[Any]) -> None:
    with indexed(tables):
        for limit, asked in ((2, 1), (2, 0), (3, 1), (3, 0)):
            before = len(questions)
            query = f"SELECT id, note FROM parts WHERE some = 5 LIMIT {limit}"
            frame(tables, query)._jdf.queryExecution().optimizedPlan()
            assert len(questions) - before == asked, limit


def _scans(questions: list[Any]) -> list[dict[str, Any]]:
    return [scan for question in questions for scan in json.loads(question.text())["scans"]]
