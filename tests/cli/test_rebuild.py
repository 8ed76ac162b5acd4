"""`hive-bitmap rebuild`: what a dry run announces, what is done, and what is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.cli.conftest import Run


@pytest.fixture
def by_month(spark: SparkSession, database: str) -> str:
    """A table with a partition for each of three months and two regions, an index on k, and then a new file."""
    spark.sql("CREATE TABLE by_month (id bigint, k string) PARTITIONED BY (month int, region string) STORED AS PARQUET")
    frame = spark.range(60).selectExpr("id", "CAST(id % 5 AS string)", "CAST(id % 3 AS int)", "IF(id < 30, NULL, 'a')")
    frame.coalesce(1).write.insertInto("by_month")
    return "by_month"


def test_a_rebuild_does_what_its_dry_run_says(spark: SparkSession, by_month: str, run: Run) -> None:
    assert run("create", by_month, "k", "id", "--where", "month > 0")[0] == 0
    status, out, err = run("rebuild", by_month, "--dry-run")
    assert (status, out, err) == (0, "", "nothing to do: the indexes of by_month are up to date\n")
    spark.sql("INSERT INTO by_month VALUES (60, 'x', 1, NULL), (61, 'x', 0, 'a')")
    spark.sql("ALTER TABLE by_month DROP PARTITION (month=2, region='a')")
    status, out, err = run("rebuild", by_month, "k", "--dry-run", "--partitions", "--format", "json")
    assert (status, err) == (0, "")
    told = [(r["index"], r["partition"], r["what"], r["files_read"]) for r in json.loads(out)]
    assert told == [("k", "month=1/region=NULL", "refresh", 1), ("k", "month=2/region=a", "drop", 0)]
    listed = run("rebuild", by_month, "--dry-run", "--partitions")[1].splitlines()[2:]
    assert [line.split()[0] for line in listed] == ["id"] * 2 + ["k"] * 2
    summed = run("rebuild", by_month, "--dry-run")[1].splitlines()[2:]
    assert [line.split()[:3] for line in summed] == [["id", "2", "1"], ["k", "2", "1"]] and "1 new" in summed[0]
    assert run("rebuild", by_month, "--partitions")[0] == 2
    assert "k: the next rebuild reads 1 file of" in run("show", by_month)[2]

    status, out, err = run("rebuild", by_month, "k", "--format", "json", "--partition", "month=1")
    [built] = json.loads(out)
    assert (status, err) == (0, "")
    assert (built["files_read"], built["changed_meanwhile"]) == (1, 0)
    assert [
        partition["what"]
        for record in json.loads(run("rebuild", by_month, "k", "--dry-run", "--format", "json")[1])
        for partition in record["partitions"]
    ] == ["drop"]
    for options in ([], ["--compact"]):
        status, out, err = run("rebuild", by_month, *options)
        assert (status, err) == (0, "") and len(out.splitlines()) == 4
    assert run("rebuild", by_month, "--dry-run", "--compact")[1:] == (
        "",
        "nothing to do: the indexes of by_month are up to date\n",
    )
    full = json.loads(run("rebuild", by_month, "k", "--full", "--dry-run", "--format", "json")[1])
    assert [(record["files_read"], record["why"]) for record in full] == [(4, {"all are asked for": 4})]


def test_partitions_that_are_not_there(by_month: str, run: Run) -> None:
    run("create", by_month, "k")
    for spec, said in (("month=9", "no partition (month=9) in table"), ("k=1", "no partition column 'k'")):
        status, out, err = run("rebuild", by_month, "--partition", spec)
        assert (status, out) == (1, "") and said in err


def test_what_fails_of_all_tables_is_said_also_with_quiet(spark: SparkSession, database: str, run: Run) -> None:
    for name in ("good", "bad"):
        spark.sql(f"CREATE TABLE {name} USING parquet AS SELECT id AS k FROM range(10)")
        assert run("create", name, "k")[0] == 0
        spark.sql(f"INSERT INTO {name} VALUES (10)")
    [location] = spark.sql("DESCRIBE EXTENDED bad").where("col_name = 'Location'").collect()
    (Path(location["data_type"].removeprefix("file:")) / "x=1").mkdir()
    status, out, err = run("--quiet", "rebuild", "--database", database, "--format", "json")
    assert status == 1 and [record["table"] for record in json.loads(out)] == [f"{database}.good"]
    [first, last] = err.splitlines()
    assert database in first and "bad" in first and "which a reader may take for a partition" in first
    assert last == "hive-bitmap: the indexes of 1 of 2 tables could not be rebuilt"


def test_progress_goes_to_the_log_where_there_is_no_terminal(
    spark: SparkSession, database: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id AS k FROM range(1000)")
    files = len(spark.table("t").inputFiles())
    status, _, _ = run("create", "t", "k")
    assert status == 0 and "indexing" not in caplog.text
    status, _, _ = run("-v", "rebuild", "t", "--full")
    assert status == 0 and f"indexing t: {files} of {files} files, 1,000 rows, " in caplog.text
