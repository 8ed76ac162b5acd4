"""`hive-bitmap refresh`: which tables, what it prints, its exit status."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.cli import refresh_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.cli.conftest import Run


@pytest.fixture
def two_tables(spark: SparkSession, database: str) -> str:
    """A database with tables `a` and `b` whose indexes do not know a file, and `c` without an index."""
    for name in "abc":
        spark.sql(f"CREATE TABLE {name} STORED AS PARQUET AS SELECT CAST(id % 7 AS int) AS k FROM range(100)")
    for name in "ab":
        hive_bitmap.build(spark, name, ["k"])
        spark.sql(f"INSERT INTO {name} VALUES (1)")
    return database


def records(out: str) -> list[dict[str, Any]]:
    return list(json.loads(out))


def test_the_tables_of_a_database(two_tables: str, spark: SparkSession, run: Run) -> None:
    status, out, _ = run("refresh", "--format", "json")
    assert status == 0
    names = [f"{two_tables}.{name}" for name in "ab"]
    told = [(one["table"], one["files_read"], one["error"]) for one in records(out)]
    assert told == [(name, 1, "") for name in names]
    assert all(hive_bitmap.show(spark, name)[0].unindexed == 0 for name in "ab")
    spark.sql("INSERT INTO a VALUES (1)")
    for arguments in (["--database", two_tables], ["--all"]):
        _, out, _ = run("refresh", *arguments, "--format", "json")
        ours = [one for one in records(out) if two_tables in one["table"]]  # other tests may have left tables that fail
        assert [(one["table"], one["error"]) for one in ours] == [(name, "") for name in names]
    assert hive_bitmap.show(spark, "a")[0].unindexed == 0


def test_one_table_and_its_line(two_tables: str, spark: SparkSession, run: Run) -> None:
    status, out, _ = run("refresh", "a")
    assert status == 0 and out.split()[:5] == ["table", "indexes", "done", "time", "error"]
    assert "read 1 file of " in out
    _, out, _ = run("refresh", "a")
    assert "nothing to read, up to date" in out
    assert hive_bitmap.show(spark, "a")[0].unindexed == 0 and hive_bitmap.show(spark, "b")[0].unindexed == 1


@pytest.mark.contract
def test_a_table_that_fails_is_one_of_several(two_tables: str, spark: SparkSession, run: Run) -> None:
    status, out, errors = run("refresh", "nothere", "c", "b", "--format", "json")
    assert status == 1 and "2 of the tables could not be refreshed" in errors
    said = {one["table"]: one["error"] for one in records(out)}
    assert "nothere" in said["nothere"] and "has no index" in said["c"] and said["b"] == ""
    assert hive_bitmap.show(spark, "b")[0].unindexed == 0


def test_again_and_again(two_tables: str, spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt
        spark.sql("INSERT INTO a VALUES (1)")

    monkeypatch.setattr(refresh_command, "time", SimpleNamespace(sleep=sleep))
    status, out, errors = run("refresh", "a", "--every", "5m", "--format", "csv")
    assert status == 130 and "interrupted" in errors and slept == [300.0] * 3
    assert [line.split(",")[2] for line in out.splitlines() if not line.startswith("table")] == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--all"], "give only one of TABLEs"),
        (["--all", "--database", "d"], "give only one of TABLEs"),
        (["--every", "soon"], "'soon' is not a length of time: write a number and a unit, such as 30 seconds or 5m"),
    ],
)
def test_wrong_usage(run: Run, arguments: list[str], message: str) -> None:
    status, out, errors = run("refresh", *arguments)
    assert status == 2 and message in " ".join(errors.split()) and out == ""


def test_a_database_without_indexes(spark: SparkSession, database: str, run: Run) -> None:
    status, out, errors = run("refresh")
    assert status == 0 and out == "" and "no table has an index" in errors
