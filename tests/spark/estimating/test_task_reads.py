"""What an estimate reads, it reads in tasks: this process opens no base file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.formats import parquet_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_this_process_opens_no_file(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "SELECT /*+ REPARTITION(5) */ id AS k, cast(id % 7 AS string) AS s FROM range(999)"
    spark.sql(f"CREATE TABLE t USING parquet AS {rows}")

    def refused(*_: Any) -> None:
        raise AssertionError("opened here")

    monkeypatch.setattr(parquet_file.pq, "ParquetFile", refused)
    for one in hive_bitmap.estimate(spark, "t", ["k", "s", ["k", "s"]]):
        assert (one.rows, one.files) == (999, 5) and one.distinct_keys >= 7
