"""estimate against what a build then makes, and against keys and blocks that numpy and the files count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from bench.data import prepare
from hive_bitmap.core.samples.sampling import FEWEST_BLOCKS
from hive_bitmap.errors import InvalidProperty, NotFound, Unsupported
from hive_bitmap.spark.building.build import build
from hive_bitmap.spark.estimating.estimate import estimate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FILES, GROUP_ROWS = 400_000, 5, 10_000
FEW_KEYS, MANY_KEYS = ("flag", "letter", "zipf", "clustered"), ("id", "scattered", "text")
KINDS = {name: {"encoding": name} for name in ("gap", "roaring", "ewah", "plain")} | {"COMPACT": {"type": "COMPACT"}}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in five files of eight row groups each, with keys of every kind of distribution."""
    folder = tmp_path_factory.mktemp("many")
    random = np.random.default_rng(7)
    data = pa.table(
        {
            "flag": pa.array(random.random(ROWS) < 0.3),
            "letter": pa.array(np.array([f"letter {n:02}" for n in range(52)])[random.integers(0, 52, ROWS)]),
            "zipf": pa.array(np.minimum(random.zipf(1.3, ROWS), 5000), pa.int32()),
            "clustered": pa.array(np.sort(random.integers(0, 10_000, ROWS)), pa.int32()),
            "id": pa.array(np.arange(ROWS)),
            "scattered": pa.array(random.permutation(ROWS)),
            "text": pa.array([f"{n:x}" for n in random.integers(0, 1 << 40, ROWS).tolist()]),
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


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of the bench, smaller: ten files of eight row groups, half of them sorted by region."""
    return prepare(tmp_path_factory.mktemp("bench"), ROWS, lambda _: None).folder


def compare(spark: SparkSession, table: str, columns: Sequence[str], **kind: str) -> list[tuple[str, int, int]]:
    """Estimated and built bytes of an index on each of the columns, from 5 % of the blocks or from FEWEST_BLOCKS."""
    told = estimate(spark, table, columns, **kind)
    made = build(spark, table, columns, **kind)
    for each in told:
        assert each.blocks_sampled == max(FEWEST_BLOCKS, int(each.blocks_total * 0.05))
    return [(e.columns[0], e.index_bytes, b.index_bytes) for e, b in zip(told, made, strict=True)]


@pytest.mark.parametrize("kind", KINDS, ids=KINDS)
def test_sizes_of_the_bench_are_within_30_percent(spark: SparkSession, database: str, bench: Path, kind: str) -> None:
    make(spark, "t", bench)
    columns = ["gender", "type", "age", "region", "store"][: 4 if kind == "plain" else None]
    found = compare(spark, "t", columns, **KINDS[kind])
    assert [each for each in found if not 0.7 < each[1] / each[2] < 1.3] == []


@pytest.mark.parametrize("kind", KINDS, ids=KINDS)
def test_sizes_of_sorted_and_of_many_keys_are_within_30_percent(
    spark: SparkSession, database: str, many: Path, kind: str
) -> None:
    """Or within 4 kB: how well zstd packs the few lists of offsets of a small COMPACT index is luck."""
    make(spark, "t", many)
    found = compare(spark, "t", FEW_KEYS[: 2 if kind == "plain" else None], **KINDS[kind])
    if kind != "plain":
        found += compare(spark, "t", MANY_KEYS, **KINDS[kind])
    assert [each for each in found if abs(each[1] - each[2]) > max(0.3 * each[2], 4000)] == []


def test_keys_by_expression_are_computed_for_the_sample(spark: SparkSession, database: str, many: Path) -> None:
    make(spark, "t", many)
    keys = ["pmod(scattered, 97) AS rest", "xxhash64(id) AS h", "substring(text, 1, 2) AS prefix", "letter"]
    found = compare(spark, "t", keys)
    assert [each for each in found if abs(each[1] - each[2]) > max(0.3 * each[2], 4000)] == []
    rest, hashed, prefix, letter = estimate(spark, "t", keys, sample=0.1)
    assert rest.distinct_keys == 97 and hashed.distinct_keys > 10_000 and 200 < prefix.distinct_keys <= 257
    assert rest.columns == ("pmod(scattered, 97) AS rest",) and "rare key" in rest.verdict
    assert "own" in hashed.verdict or "not worth" in hashed.verdict
    assert letter.seconds < rest.seconds
    root = spark.sql("DESCRIBE DATABASE EXTENDED " + database).where("info_name = 'Location'").collect()[0][1]
    before = sorted(Path(root.removeprefix("file:")).rglob("*"))
    (both,) = estimate(spark, "t", [["letter", f.pmod("scattered", f.lit(3)).alias("third")]])
    assert both.distinct_keys == 52 * 3
    with pytest.raises(Unsupported, match="is not among the functions"):
        estimate(spark, "t", ["upper(text) AS upper"])
    assert sorted(Path(root.removeprefix("file:")).rglob("*")) == before


def test_an_aggregate_index_of_nearly_unique_keys_is_not_worth_it(
    spark: SparkSession, database: str, many: Path
) -> None:
    make(spark, "t", many)
    by_letter, by_id = estimate(spark, "t", ["letter", "scattered"], type="AGGREGATE")
    assert "not worth it" not in by_letter.verdict
    assert by_id.verdict.startswith("not worth it: the index has ") and by_id.verdict.endswith("its sums save little")


def test_usefulness_says_what_an_equality_skips(spark: SparkSession, database: str, many: Path) -> None:
    make(spark, "t", many)
    told = {each.columns[0]: each for each in estimate(spark, "t", ["letter", "clustered", "id"], sample=0.2)}
    assert told["letter"].distinct_keys == 52
    assert told["letter"].usefulness.startswith(
        "on average a key is in 100% of the blocks and selects 1.9 % of the rows"
    )
    assert told["clustered"].distinct_keys <= 10_000
    assert "skips about 97% of the blocks" in told["clustered"].usefulness  # a key in 1.004 of 40
    assert "in 2% of the blocks and selects 0.00025 % of the rows" in told["id"].usefulness
    assert {each.blocks_sampled for each in told.values()} == {8}
    assert told["id"].seconds > 0
    assert estimate(spark, "t", ["letter"], sample=0.2)[0].index_bytes == told["letter"].index_bytes


@pytest.mark.contract
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
