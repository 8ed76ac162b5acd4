"""estimate against what a build then makes, and against keys and blocks that numpy and the files count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.errors import InvalidProperty, NotFound, Unsupported
from hive_bitmap.index.build import build
from hive_bitmap.index.estimate import estimate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FILES, GROUP_ROWS = 1_000_000, 5, 25_000
COLUMNS = ("flag", "letter", "zipf", "clustered", "id", "scattered")


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A million rows in five files of eight row groups each, with keys of every kind of distribution."""
    folder = tmp_path_factory.mktemp("million")
    random = np.random.default_rng(7)
    data = pa.table(
        {
            "flag": pa.array(random.random(ROWS) < 0.3),
            "letter": pa.array(np.array([f"letter {n:02}" for n in range(52)])[random.integers(0, 52, ROWS)]),
            "zipf": pa.array(np.minimum(random.zipf(1.3, ROWS), 5000), pa.int32()),
            "clustered": pa.array(np.sort(random.integers(0, 10_000, ROWS)), pa.int32()),
            "id": pa.array(np.arange(ROWS)),
            "scattered": pa.array(random.permutation(ROWS)),
        }
    )
    size = ROWS // FILES
    for number in range(FILES):
        pq.write_table(data.slice(number * size, size), folder / f"part-{number}.parquet", row_group_size=GROUP_ROWS)
    return folder


def make(spark: SparkSession, name: str, folder: Path) -> None:
    schema = spark.read.parquet(str(folder)).schema
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
    spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet LOCATION '{folder}'")


@pytest.mark.parametrize("encoding", ["gap", "roaring", "ewah", "plain"])
def test_sizes_are_within_a_third_of_the_built_ones(
    spark: SparkSession, database: str, million: Path, encoding: str
) -> None:
    make(spark, "t", million)
    columns = COLUMNS if encoding != "plain" else ("flag", "letter")
    told = estimate(spark, "t", columns, encoding=encoding)
    made = build(spark, "t", columns, encoding=encoding)
    ratios = {e.columns[0]: e.index_bytes / b.index_bytes for e, b in zip(told, made, strict=True)}
    assert all(0.7 < ratio < 1.3 for ratio in ratios.values()), ratios
    assert all((e.blocks_total, e.blocks_sampled) == (FILES * 8, 2) for e in told)
    assert all(e.base_bytes == sum(f.stat().st_size for f in million.iterdir()) for e in told)


def test_usefulness_says_what_an_equality_skips(spark: SparkSession, database: str, million: Path) -> None:
    make(spark, "t", million)
    told = {each.columns[0]: each for each in estimate(spark, "t", ["letter", "clustered", "id"], sample=0.2)}
    assert told["letter"].distinct_keys == 52
    assert told["letter"].usefulness.startswith(
        "on average a key is in 100% of the blocks and selects 1.9 % of the rows"
    )
    assert told["clustered"].distinct_keys <= 10_000
    assert "skips about 98% of the blocks" in told["clustered"].usefulness
    assert "in 2% of the blocks and selects 0.0001 % of the rows" in told["id"].usefulness
    assert {each.blocks_sampled for each in told.values()} == {8}
    assert told["id"].seconds > 0
    assert estimate(spark, "t", ["letter"], sample=0.2)[0].index_bytes == told["letter"].index_bytes


def test_small_partitioned_empty_and_refused(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE p (k int, s string) PARTITIONED BY (day string) STORED AS ORC")
    (empty,) = estimate(spark, "p", ["k"])
    assert (empty.blocks_total, empty.distinct_keys, empty.base_bytes) == (0, 0, 0)
    assert empty.usefulness == "the table has no rows that can be indexed"
    spark.sql("INSERT INTO p VALUES (1, 'a', 'x')")
    (single,) = estimate(spark, "p", [["s", "k"]], type="COMPACT")
    assert (single.columns, single.blocks_sampled, single.distinct_keys) == (("k", "s"), 1, 1)
    spark.sql("INSERT INTO p VALUES (2, 'a', 'y')")
    k, s = estimate(spark, "p", ["k", "s"], sample=1)
    assert (k.blocks_sampled, k.blocks_total) == (2, 2)
    assert "is in 50% of the blocks" in k.usefulness and "is in 100% of the blocks" in s.usefulness
    with pytest.raises(InvalidProperty, match="share of the blocks"):
        estimate(spark, "p", ["k"], sample=0)
    with pytest.raises(NotFound, match="no column 'z'"):
        estimate(spark, "p", ["z"])
    spark.sql("CREATE VIEW v AS SELECT * FROM p")
    with pytest.raises(Unsupported, match="view"):
        estimate(spark, "v", ["k"])
