"""Builds in which a file ends the process that reads it: it stays unindexed, and the build goes on with the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.formats import parquet_file
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst.explanation import Relation, relations_of
from tests.asking import FORCED, by_index, by_spark, difference, frame, indexed
from tests.spark.reading.test_faults import generations, python_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100
REASON = "a library ended the process that read it (SIGABRT)"


def rows(first: int) -> pa.Table:
    numbers = range(first, first + ROWS)
    return pa.table({"k": pa.array([n % 7 for n in numbers], pa.int32()), "s": [f"s{n}" for n in numbers]})


# A library that ends the process, in workers and their children: no known file makes Arrow do so.
FAULT = """
import os
from hive_bitmap.core.formats import parquet_file
own = parquet_file.parquet_footer_length
def end(source):
    source.seek(0)
    if b"fatal" in source.read():
        os.abort()
    return own(source)
parquet_file.parquet_footer_length = end
"""


def write_fatal(path: Path) -> str:
    """Write a file at which FAULT ends the process."""
    pq.write_table(rows(0).replace_schema_metadata({"fatal": ""}), path, row_group_size=40)
    return f"file:{path}"


@pytest.fixture
def fault(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start new Python workers with FAULT; no process but these may open such a file."""
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(FAULT)
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(tmp_path / "faults"))
    own = parquet_file.parquet_footer_length

    def refuse(source: pa.NativeFile) -> int:
        source.seek(0)
        assert b"fatal" not in source.read()
        return own(source)

    monkeypatch.setattr(parquet_file, "parquet_footer_length", refuse)


@pytest.fixture
def folder(spark: SparkSession, database: str, tmp_path: Path) -> Path:
    """The folder of a table of four sound files."""
    (tmp_path / "t").mkdir()
    for number in range(4):
        pq.write_table(rows(number * ROWS), tmp_path / "t" / f"{number}.parquet", row_group_size=40)
    spark.sql(f"CREATE TABLE t (k int, s string) USING parquet LOCATION '{tmp_path / 't'}'")
    return tmp_path / "t"


@pytest.mark.contract
def test_a_build_goes_on_without_it(spark: SparkSession, folder: Path, fault: None) -> None:
    fatal = [write_fatal(folder / f"{name}.parquet") for name in ("1b", "9")]
    built = hive_bitmap.build(spark, "t", ["k", "s"], encoding="roaring")
    for report in built:
        assert sorted(report.unindexed) == [(path, REASON) for path in fatal]
        assert report.base_rows == 4 * ROWS
        generation = report.definition.root
        assert len(generations(Path(generation[5:]))) == 1  # nothing of the first attempt is left
    assert all(one.ok and one.rows == 4 * ROWS for one in hive_bitmap.verify(spark, "t"))
    assert all(report.files_read == 0 for report in hive_bitmap.rebuild(spark, "t"))  # they are not tried again
    for path in fatal:
        os.remove(path[5:])
    spark.catalog.refreshTable("t")
    assert hive_bitmap.count(spark, "t", "k = 3", strategy="index only") == spark.table("t").where("k = 3").count()


def test_it_comes_later(spark: SparkSession, folder: Path, fault: None, tmp_path: Path) -> None:
    """No process of the driver, nor of a query's tasks, opens it; nor does a worker die a second time."""
    hive_bitmap.build(spark, "t", ["k"])
    path = write_fatal(folder / "9.parquet")
    spark.catalog.refreshTable("t")
    for query in ("SELECT count(*) FROM t WHERE k = 3", "SELECT s FROM t WHERE k = 3"):
        for strategy in ("", *FORCED):
            assert not difference(by_index(spark, query, strategy, strict="false"), by_spark(spark, query))
    [estimate] = hive_bitmap.estimate(spark, "t", ["k"])
    assert estimate.rows == 4 * ROWS
    with pytest.raises(Unsupported) as raised:
        hive_bitmap.write_offsets(spark, "t", "k = 3", str(tmp_path / "offsets"))
    assert str(raised.value) == f"the blocks of {path} are unknown: {REASON}"
    [report] = hive_bitmap.rebuild(spark, "t")
    assert report.unindexed == ((path, REASON),)
    before = python_workers(spark)
    [again] = hive_bitmap.rebuild(spark, "t")
    assert again.unindexed == ((path, REASON),) and again.files_read == 0
    assert set(before) <= set(python_workers(spark))


def write_half_damaged(path: Path) -> str:
    """Write a file whose column `s` is damaged where its values are, behind a sound footer."""
    pq.write_table(rows(0), path, compression="none", use_dictionary=False)
    chunk = pq.read_metadata(path).row_group(0).column(1)
    with path.open("r+b") as file:
        file.seek(chunk.data_page_offset)
        file.write(b"\xff" * chunk.total_compressed_size)
    return f"file:{path}"


@pytest.mark.parametrize("names", [["k", "s"], ["s", "k"]])
def test_a_column_that_another_index_could_not_decode(spark: SparkSession, folder: Path, names: list[str]) -> None:
    """Whichever index serves the query, only Spark reads that column of that file, until the file changes."""
    path = write_half_damaged(folder / "9.parquet")
    for name in names:
        [report] = hive_bitmap.build(spark, "t", [name])
        assert [file for file, _ in report.unindexed] == ([path] if name == "s" else [])

    def scan(query: str) -> Relation:
        with indexed(spark, "rows", strict="false"):
            [one] = relations_of(frame(spark, query))
            return one

    assert scan("SELECT k FROM t WHERE k = 3").strategy == "rows"
    assert "rows" not in scan("SELECT s FROM t WHERE k = 3").costs
    pq.write_table(rows(0), path[5:])
    spark.catalog.refreshTable("t")
    hive_bitmap.rebuild(spark, "t")
    assert scan("SELECT s FROM t WHERE k = 3").strategy == "rows"
