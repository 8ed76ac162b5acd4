"""Result files of a table whose partitions share a folder: a file has the offsets that each of them selects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def offsets(spark: SparkSession, predicate: str, path: Path) -> set[int]:
    """The offsets of the only file in the result file of a predicate; none if it has no line."""
    hive_bitmap.write_offsets(spark, "t", predicate, str(path))
    lines = path.read_text().splitlines()
    return {int(one) for line in lines for one in line.partition("\x01")[2].split("\x02")}


@pytest.mark.parametrize("format", ["TEXTFILE", pytest.param("PARQUET", marks=pytest.mark.contract)])
def test_a_file_of_two_partitions(spark: SparkSession, database: str, tmp_path: Path, format: str) -> None:
    spark.sql(f"CREATE TABLE t (k INT) PARTITIONED BY (p STRING) STORED AS {format}")
    for value in ("a", "b"):
        spark.sql(f"ALTER TABLE t ADD PARTITION (p='{value}') LOCATION '{tmp_path}/shared'")
    spark.sql("INSERT INTO t PARTITION (p='a') SELECT /*+ COALESCE(1) */ id % 5 FROM range(50)")
    hive_bitmap.build(spark, "t", ["k"])
    first, second = "p = 'a' AND k = 1", "p = 'b' AND k = 2"
    wanted = offsets(spark, first, tmp_path / "1") | offsets(spark, second, tmp_path / "2")
    assert wanted == offsets(spark, f"{first} OR {second}", tmp_path / "3")
    assert len(wanted) == (20 if format == "TEXTFILE" else 1)
