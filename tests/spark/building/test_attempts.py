"""Builds in which a file ends the process that reads it: it stays unindexed, and the build goes on with the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.formats import FORMATS
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst.explanation import Relation, relations_of
from tests.asking import FORCED, by_index, frame, indexed
from tests.campaigns.footers import thrift, thrift_bytes
from tests.campaigns.test_footers import in_child
from tests.spark.reading.test_faults import generations, python_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100
COLUMNS = [KeyColumn("k", "int"), KeyColumn("s", "string")]
REASON = "a library ended the process that read it (SIGABRT)"


def rows(first: int) -> pa.Table:
    numbers = range(first, first + ROWS)
    return pa.table({"k": pa.array([n % 7 for n in numbers], pa.int32()), "s": [f"s{n}" for n in numbers]})


def write_fatal(path: Path) -> str:
    """Write a file in which a histogram of levels has a bucket too many, at which Arrow's C++ ends the process."""
    pq.write_table(rows(0), path, row_group_size=40)
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    root = thrift(data[-8 - size : -8])
    size_statistics = next(node for node in root.all() if node.number == 16)
    histogram = next(node for node in size_statistics.children if node.number == 3)
    histogram.children *= 2
    footer = thrift_bytes(root)
    path.write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return f"file:{path}"


@pytest.fixture
def folder(spark: SparkSession, database: str, tmp_path: Path) -> Path:
    """The folder of a table of four sound files."""
    (tmp_path / "t").mkdir()
    for number in range(4):
        pq.write_table(rows(number * ROWS), tmp_path / "t" / f"{number}.parquet", row_group_size=40)
    spark.sql(f"CREATE TABLE t (k int, s string) USING parquet LOCATION '{tmp_path / 't'}'")
    return tmp_path / "t"


def rehearse(say: Callable[[str], None], path: str) -> None:
    FORMATS["parquet"].rehearse(FORMATS["parquet"].open_file(path), COLUMNS)
    say("rehearsed")


def test_such_a_file_ends_its_process(tmp_path: Path) -> None:
    path = write_fatal(tmp_path / "a.parquet")
    said = in_child(rehearse, path)
    assert said == "SIGABRT"


@pytest.mark.contract
def test_a_build_goes_on_without_it(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
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


def test_it_comes_later(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """No process of the driver, nor of a query's tasks, opens it; nor does a worker die a second time."""
    hive_bitmap.build(spark, "t", ["k"])
    path = write_fatal(folder / "9.parquet")
    spark.catalog.refreshTable("t")
    for query in ("SELECT count(*) FROM t WHERE k = 3", "SELECT s FROM t WHERE k = 3"):
        for strategy in ("", *FORCED):
            try:
                by_index(spark, query, strategy, strict="false")
            except Exception as e:  # noqa: BLE001 - Spark cannot read all of the file either
                assert "Python worker" not in str(e), (query, strategy)
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
