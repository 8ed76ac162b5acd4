"""Base files that are replaced, deleted or added, before a query is planned or between planning and execution."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from tests.asking import FORCED, answer, by_spark, difference, frame, indexed
from tests.contract import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

ROWS = 2000
QUERIES = ("SELECT id FROM {t} WHERE k = 3", "SELECT id FROM {t} WHERE k = 9", "SELECT k, count(*) FROM {t} GROUP BY k")


def write(path: Path, seed: int, high: int = 7, rows: int = ROWS) -> None:
    """Write a file of `k` (random, below `high`) and `id` in small blocks; an existing file is replaced atomically."""
    rng = np.random.default_rng(seed)
    keys, ids = pa.array(rng.integers(0, high, rows), pa.int32()), pa.array(rng.integers(0, 1 << 40, rows))
    made, new = pa.table({"k": keys, "id": ids}), path.with_name(f".{path.name}.new")
    if path.suffix == ".orc":
        orc.write_table(made, new, stripe_size=1, batch_size=64)
    else:
        pq.write_table(made, new, row_group_size=100)
    os.replace(new, path)


@pytest.fixture(params=["parquet", "orc"])
def files(
    request: pytest.FixtureRequest, spark: SparkSession, shared_database: str, tmp_path: Path
) -> tuple[str, list[Path]]:
    """Return an indexed table of four files, and their paths; no row of the last file has k = 3."""
    name, folder = f"{shared_database}.changing_{uuid4().hex[:8]}", tmp_path / "t"
    folder.mkdir()
    paths = [folder / f"{number}.{request.param}" for number in range(4)]
    for number, path in enumerate(paths):
        write(path, number, high=3 if number == 3 else 7)
    spark.sql(f"CREATE TABLE {name} (k int, id bigint) USING {request.param} LOCATION '{folder}'")
    hive_bitmap.build(spark, name, ["k"])
    return name, paths


@pytest.mark.parametrize("strategy", contract(["", *FORCED], "rows", "blocks"))
def test_files_that_changed_before_the_query(spark: SparkSession, files: tuple[str, list[Path]], strategy: str) -> None:
    name, paths = files
    write(paths[1], 11)
    paths[2].unlink()
    write(paths[0].with_name(f"new{paths[0].suffix}"), 12, high=10)
    spark.catalog.refreshTable(name)
    for query in QUERIES:
        text = query.format(t=name)
        wanted = by_spark(spark, text)
        with indexed(spark, strategy):
            assert not difference(answer(frame(spark, text)), wanted), text


@pytest.mark.parametrize("strategy", [pytest.param("blocks", marks=pytest.mark.contract), "files", "index only"])
@pytest.mark.parametrize("which", [0, 3], ids=["read in part", "left out"])
def test_files_that_are_replaced_behind_the_plan(
    spark: SparkSession, files: tuple[str, list[Path]], strategy: str, which: int
) -> None:
    """A query that was planned before a file changed reads the file as it is now."""
    name, paths = files
    for query in QUERIES:
        with indexed(spark, strategy):
            planned = frame(spark, query.format(t=name))
            planned._jdf.queryExecution().executedPlan()
            write(paths[which], 20 + which, rows=ROWS + 77)
            found = answer(planned)
        spark.catalog.refreshTable(name)
        assert not difference(found, by_spark(spark, query.format(t=name))), query
        hive_bitmap.rebuild(spark, name)


@pytest.mark.parametrize(
    "strategy", ["blocks", "files", pytest.param("rows", marks=pytest.mark.contract), "index only"]
)
def test_files_of_the_same_size_and_time(spark: SparkSession, files: tuple[str, list[Path]], strategy: str) -> None:
    """A file with other rows, but of the same size and modification time, is recognized as another file."""
    name, paths = files
    before = paths[0].stat()
    content = bytearray(paths[0].read_bytes())
    for seed in range(100, 400):
        write(paths[0], seed)
        if paths[0].stat().st_size == before.st_size:
            break
    else:  # no two files are of one size here: the same file again, written anew
        paths[0].write_bytes(bytes(content))
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    spark.catalog.refreshTable(name)
    for query in QUERIES:
        wanted = by_spark(spark, query.format(t=name))
        with indexed(spark, strategy):
            assert not difference(answer(frame(spark, query.format(t=name))), wanted), query


def test_a_second_collect_of_one_frame_gives_the_same_count(spark: SparkSession, files: tuple[str, list[Path]]) -> None:
    """As in plain Spark, whose adaptive plan keeps what it has read; another frame counts what is there."""
    name, paths = files
    with indexed(spark, "index only"):
        counted = frame(spark, f"SELECT count(*) FROM {name} WHERE k = 3")
        first = counted.collect()[0][0]
        write(paths[1], 31, high=4)
        assert counted.collect()[0][0] == first
        spark.catalog.refreshTable(name)
        other = frame(spark, f"SELECT count(*) FROM {name} WHERE k = 3").collect()[0][0]
    with indexed(spark, "full scan"):
        assert other == spark.table(name).where("k = 3").count() != first


def test_a_copy_of_the_table_is_not_its_index(
    spark: SparkSession, files: tuple[str, list[Path]], tmp_path: Path
) -> None:
    """The folder is replaced by another one with files of the same names."""
    name, paths = files
    other = tmp_path / "other"
    shutil.copytree(paths[0].parent, other)
    write(other / paths[0].name, 41, high=5)
    shutil.rmtree(paths[0].parent)
    shutil.move(other, paths[0].parent)
    spark.catalog.refreshTable(name)
    for query in QUERIES:
        wanted = by_spark(spark, query.format(t=name))
        for strategy in ("blocks", "index only"):
            with indexed(spark, strategy):
                assert not difference(answer(frame(spark, query.format(t=name))), wanted), query
