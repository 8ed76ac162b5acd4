"""Tables that a stream writes: their rows are in the files that the stream's log names, whatever lies beside."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests.asking import OFF, indexed, under

QUERIES = ("SELECT count(*) FROM s WHERE k = 3", "SELECT k, count(*) FROM s GROUP BY k", "SELECT v FROM s WHERE k = 3")


def write_a_stream(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(100).selectExpr("CAST(id % 7 AS INT) AS k", "id AS v")
    rows.write.parquet(str(folder / "in"))
    stream = spark.readStream.schema("k INT, v BIGINT").parquet(str(folder / "in"))
    writing = stream.writeStream.option("checkpointLocation", str(folder / "log")).format("parquet")
    writing.trigger(availableNow=True).toTable("s", path=str(folder / "s")).awaitTermination()


@pytest.mark.contract
def test_a_streamed_table_is_not_indexed(spark: SparkSession, database: str, tmp_path: Path) -> None:
    write_a_stream(spark, tmp_path)
    with pytest.raises(Unsupported, match=r"a stream of Spark writes into .*only the files that _spark_metadata names"):
        hive_bitmap.build(spark, "s", ["k"])


@pytest.mark.contract
def test_a_table_that_a_stream_writes_into_later_is_sparks(spark: SparkSession, database: str, tmp_path: Path) -> None:
    write_a_stream(spark, tmp_path)
    log = tmp_path / "s" / "_spark_metadata"
    shutil.move(log, tmp_path / "aside")
    spark.sql("REFRESH TABLE s")
    hive_bitmap.build(spark, "s", ["k"])
    shutil.move(tmp_path / "aside", log)
    file = next((tmp_path / "s").glob("*.parquet"))
    shutil.copy(file, file.with_name("of-a-failed-batch.parquet"))
    spark.sql("REFRESH TABLE s")
    for query in QUERIES:
        with under(spark, OFF):
            plain = sorted(map(str, spark.sql(query).collect()))
        with indexed(spark, "index only" if "count" in query else "rows"):
            assert sorted(map(str, spark.sql(query).collect())) == plain
    assert hive_bitmap.count(spark, "s", "k = 3") == 14
