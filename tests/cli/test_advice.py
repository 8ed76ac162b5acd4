"""`hive-bitmap advise`: tables, statements and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.spark.estimating.estimate import Estimate, estimate
from tests.asking import indexed
from tests.cli.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_prints_a_set_and_unused_indexes(
    spark: SparkSession, database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_takes(*given: Any, **options: Any) -> list[Estimate]:
        return [replace(one, seconds=1000.0 if one.columns == ("r",) else 0.001) for one in estimate(*given, **options)]

    monkeypatch.setattr("hive_bitmap.spark.advising.advise.estimate", build_takes)
    columns = "int(id / 1000) AS day, int(id % 7) AS k, rand() AS r"
    spark.sql(f"CREATE TABLE t USING parquet AS SELECT {columns} FROM range(6000000)")
    hive_bitmap.build(spark, "t", ["k"])
    with indexed(spark):
        spark.sql("EXPLAIN SELECT day, count(*) FROM t GROUP BY day")
        spark.sql("EXPLAIN SELECT count(*) FROM t WHERE r = 0.5")
        status, out, err = run("advise", "t")
        assert status == 0
        heading, _, first = out.splitlines()[:3]
        assert heading.split()[:3] == ["step", "table", "index"] and "bytes saved" in heading
        assert first.split()[:3] == ["1", f"{database}.t", "(day)"]
        assert f"CREATE INDEX `day` ON TABLE `{database}`.`t` (`day`) AS 'BITMAP';" in out
        assert "left out" in out and "(r)" in out and "unused index" in out and " MB" in out
        assert "2 scans seen since 20" in err and "1 index would have saved" in err
        status, out, _ = run("advise", "t", "--format", "csv")
        assert (
            status == 0
            and out.count("\n") == 2
            and out.startswith("step,table,columns,")
            and "CREATE INDEX `day`" in out
        )
        status, out, _ = run("advise", "t", "--format", "json", "--limit", "1")
    found = json.loads(out)
    assert status == 0 and found["queries"] == 2
    assert [one["columns"] for one in found["proposals"]] == [[["day"]]]
    assert [one["columns"] for one in found["left_out"]] == [[["r"]]]
    assert [one["index"] for one in found["unused"]] == ["k"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nonsense"], 1, "nonsense"),
        (["--file", "/no/such/file"], 1, "there is no file /no/such/file"),
        (["--limit", "0"], 2, "--limit"),
        (["--times", "0"], 2, "--times"),
    ],
)
def test_errors(spark: SparkSession, database: str, run: Run, arguments: list[str], status: int, said: str) -> None:
    found, out, err = run("advise", *arguments)
    assert (found, out) == (status, "") and said in err


def test_nothing_seen(spark: SparkSession, database: str, run: Run) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT 1 AS k")
    status, out, err = run("advise", "t")
    assert (status, out, err.splitlines()[-1]) == (0, "", f"no query of {database}.t has been seen")
