"""Indexes of type AGGREGATE: counts and sums from one row for each key and file are plain Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.index import lookup, manifest
from hive_bitmap.errors import InvalidProperty, Unsupported
from hive_bitmap.hive.hive2.export import export
from hive_bitmap.spark.registry import catalog
from tests.asking import by_index, by_spark, difference, indexed, told
from tests.spark.catalyst.test_sums import (
    create,
    is_answered,
    require_alike,
    require_sums_through_life,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = [
    "SELECT count(*) FROM t",
    "SELECT count(*), count(k), count(j) FROM t WHERE k = 'a' AND j > 0",
    "SELECT count(*) FROM t WHERE k = 'a' AND p = 1 OR j IS NULL",
    "SELECT k, count(*) FROM t GROUP BY k",
    "SELECT j, k, count(*) AS n FROM t WHERE p = 0 GROUP BY j, k HAVING count(*) > 2 ORDER BY n DESC, j, k LIMIT 5",
    "SELECT p, j, count(*) FROM t WHERE k LIKE 'd%' OR k > 'a' GROUP BY p, j",
    "SELECT p, count(*) FROM t WHERE k = 'b' GROUP BY p",
    "SELECT k, count(DISTINCT j), min(j), max(j), sum(j), avg(j) FROM t GROUP BY k",
    "SELECT count(DISTINCT k), min(k), max(j) FROM t WHERE j < 3",
    "SELECT count(DISTINCT k, j), count(DISTINCT j) FROM t",
    "SELECT DISTINCT k FROM t WHERE j = 1",
    "SELECT upper(k), count(*) FILTER (WHERE j = 2) FROM t GROUP BY upper(k)",
    "SELECT k, count(*), sum(n), max(price) FROM t WHERE j BETWEEN 1 AND 2 GROUP BY k",
]


def test_random_sums_of_a_cube_are_sparks(
    spark: SparkSession, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for seed in range(1 + request.config.getoption("--long")):
        require_sums_through_life(spark, tmp_path / str(seed), 100 + seed, "AGGREGATE")


SOME = [COUNTS[number] for number in (3, 5, 7)]


def require_counts(spark: SparkSession, texts: Sequence[str]) -> None:
    for text in texts:
        require_alike(spark, text)
        assert is_answered(spark, text), text


def test_counts_of_a_cube_are_sparks(spark: SparkSession, database: str, tmp_path: Path) -> None:
    create(spark, tmp_path / "t", 2, type="AGGREGATE")
    require_counts(spark, COUNTS)


@pytest.mark.contract
def test_the_life_of_a_cube(spark: SparkSession, database: str, tmp_path: Path) -> None:
    rng = create(spark, tmp_path / "t", 2, type="AGGREGATE")
    require_counts(spark, SOME)
    [shown] = hive_bitmap.show(spark, "t")
    assert (shown.definition.type, shown.problem, shown.stale) == ("AGGREGATE", "", 0)
    stored = spark.table(shown.definition.index_table)
    assert stored.columns[:5] == ["k", "j", "_bucketname", "_offsets", "_count_of_all"] and "p" in stored.columns
    assert stored.groupBy("k", "j", "_bucketname").count().where("count > 1").count() == 0
    rows = "SELECT * FROM t WHERE k = 'd e' AND j = 3"  # rows are read by blocks, as through COMPACT
    assert not difference(by_index(spark, rows, "blocks"), by_spark(spark, rows))
    assert told(spark, rows, "blocks") == [("t", "narrowed")]
    write(tmp_path / "t" / "p=0" / "9.parquet", rng)
    write(tmp_path / "t" / "p=1" / "1.parquet", rng)
    spark.catalog.refreshTable("t")
    require_counts(spark, SOME)
    hive_bitmap.refresh(spark, "t")
    require_counts(spark, SOME)
    hive_bitmap.rebuild(spark, "t", compact=True)
    require_counts(spark, SOME)
    [verified] = hive_bitmap.verify(spark, "t")
    assert (verified.problems, verified.files) == ((), 6)
    hive_bitmap.drop(spark, "t", "k_j")
    assert not list((tmp_path / "t").rglob("generation-*")) and hive_bitmap.show(spark, "t") == []


def test_no_keys_are_counted_by_an_index_that_lists_blocks(spark: SparkSession, database: str) -> None:
    """The condition is TRUE in one partition and FALSE in the other, so no key is looked up to select rows."""
    rows = "SELECT id % 5 AS k, id % 2 AS p FROM range(60)"
    spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) AS {rows}")
    hive_bitmap.build(spark, "t", ["k"], type="COMPACT")
    query = "SELECT p, k, count(*) FROM t WHERE p = 0 OR k = 3 AND k IS NULL GROUP BY p, k"
    assert not difference(by_index(spark, query, "index only"), by_spark(spark, query))
    assert ("t", "answered") not in told(spark, query, "index only")


@pytest.mark.contract
def test_statements_of_both_dialects(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 3 AS k, id % 4 AS j, CAST(id AS int) AS n FROM range(60)")
    hive_bitmap.sql(
        spark, "CREATE INDEX c ON TABLE t (k) AS 'AGGREGATE' IDXPROPERTIES ('AGGREGATES'='count(k), sum(n)')"
    )
    hive_bitmap.sql(spark, "CREATE INDEX d USING aggregate ON t (k, j) WITH (aggregates = 'n', auto_refresh = true)")
    texts = {
        "SELECT k, sum(n), count(*) FROM t GROUP BY k": "c",
        "SELECT count(*) FROM t WHERE k = 1": "c",
        "SELECT j, avg(n), max(n) FROM t WHERE k < 2 GROUP BY j": "d",
    }
    for text, name in texts.items():
        require_alike(spark, text)
        with indexed(spark, "index only"):
            [relation] = hive_bitmap.explain(text, spark).relations
        assert relation.action == "answered" and [use.name for use in relation.plan.indexes if use.used] == [name]
        assert "AGGREGATE" in str(hive_bitmap.explain(text, spark))
    [shown] = hive_bitmap.sql(spark, "SHOW INDEX c").collect()
    assert "aggregates=count(*), sum(n), count(n), min(n), max(n)" in str(shown)
    [copied] = [export(spark, "t", "c", str(tmp_path / "exported"))]
    assert spark.read.parquet(copied.root).columns == ["k", "_bucketname", "_offsets"]
    with pytest.raises(InvalidProperty, match="index c is AGGREGATE: it holds no bitmaps"):
        hive_bitmap.set_properties(spark, "t", "c", {"encoding": "roaring"})
    with pytest.raises(Unsupported, match="use AGGREGATE, or BITMAP"):
        hive_bitmap.sql(spark, "CREATE INDEX e ON TABLE t (j) AS 'COMPACT' IDXPROPERTIES ('aggregates'='n')")
    [estimated] = hive_bitmap.estimate(spark, "t", ["k"], type="AGGREGATE")
    assert estimated.index_bytes > 0
    for name in "cd":
        hive_bitmap.sql(spark, f"DROP INDEX {name} ON t")
    assert hive_bitmap.show(spark, "t") == []


def test_a_bitmap_index_counts_before_a_cube(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t USING parquet AS SELECT id % 3 AS k, id % 4 AS j, id % 5 AS i FROM range(60)")
    hive_bitmap.build(spark, "t", ["k", "i"])
    hive_bitmap.build(spark, "t", [["k", "j"]], type="AGGREGATE", name="cube")
    for text, used in {
        "SELECT k, count(*) FROM t GROUP BY k": ["k"],
        "SELECT k, count(*) FROM t WHERE j = 2 GROUP BY k": ["cube"],
        "SELECT i, count(*) FROM t WHERE k = 2 GROUP BY i": ["i", "k"],
    }.items():
        require_alike(spark, text)
        with indexed(spark, "index only"):
            [relation] = hive_bitmap.explain(text, spark).relations
        assert sorted(use.name for use in relation.plan.indexes if use.used) == used, text


def test_damage_of_a_cube_is_never_a_wrong_sum(spark: SparkSession, database: str, tmp_path: Path) -> None:
    create(spark, tmp_path / "t", 4, type="AGGREGATE")
    [index] = catalog.table_and_indexes(spark, "t")[1]
    [segment] = catalog.segments(spark, index)
    published = manifest.read(segment)
    texts = ["SELECT k, sum(price), count(*) FROM t GROUP BY k", "SELECT count(*) FROM t WHERE k = 'a' AND j = 1"]
    wanted = [by_spark(spark, text) for text in texts]
    for name in published.sizes:
        shard = Path(published.shard_path(name).removeprefix("file:"))
        whole = shard.read_bytes()
        for at in range(4, len(whole), max(len(whole) // 8, 1)):
            shard.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            lookup.clear_caches()
            found: list[Any] = [by_index(spark, text, "index only") for text in texts]
            assert not any(difference(*pair) for pair in zip(found, wanted, strict=True))
        shard.write_bytes(whole)
