"""`hive-bitmap advise`: tables, statements and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests.asking import indexed
from tests.cli.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_prints_candidates_and_unused_indexes(spark: SparkSession, database: str, run: Run) -> None:
    columns = "int(id / 1000) AS day, int(id % 7) AS k, rand() AS r"
    spark.sql(f"CREATE TABLE t USING parquet AS SELECT {columns} FROM range(6000000)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark):
        spark.sql("SELECT day, count(*) FROM t GROUP BY day").collect()
        status, out, err = run("advise", "t")
        assert status == 0
        heading, _, first = out.splitlines()[:3]
        assert heading.startswith("table") and "bytes saved" in heading
        assert first.startswith(f"{database}.t") and " day " in first
        assert f"CREATE INDEX `day` ON TABLE `{database}`.`t` (`day`) AS 'BITMAP';" in out
        assert "unused index" in out and " MB" in out and "1 scans seen since 20" in err
        status, out, _ = run("advise", "t", "--format", "csv")
        assert status == 0 and out.count("\n") == 2 and out.startswith("table,columns,") and "CREATE INDEX `day`" in out
        status, out, _ = run("advise", "t", "--format", "json", "--limit", "1")
    found = json.loads(out)
    assert status == 0 and found["queries"] == 1
    assert [one["columns"] for one in found["candidates"]] == [["day"]]
    assert [one["index"] for one in found["unused"]] == ["k"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nonsense"], 1, "nonsense"),
        (["--file", "/no/such/file"], 1, "there is no file /no/such/file"),
        (["--limit", "0"], 2, "--limit"),
    ],
)
def test_errors(spark: SparkSession, database: str, run: Run, arguments: list[str], status: int, said: str) -> None:
    found, out, err = run("advise", *arguments)
    assert (found, out) == (status, "") and said in err


def test_nothing_seen(spark: SparkSession, database: str, run: Run) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT 1 AS k")
    status, out, err = run("advise", "t")
    assert (status, out, err.splitlines()[-1]) == (0, "", f"no query of {database}.t has been seen")
