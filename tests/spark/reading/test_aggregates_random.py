"""Random tables, indexes and accidents: counts by key are Spark's GROUP BY of the same rows."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hive_bitmap
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.table_info import quote
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.preparing import index_lookup
from hive_bitmap.spark.reading import aggregates
from hive_bitmap.spark.registry import catalog
from tests.integration import random_tables as making
from tests.integration.random_tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
USUAL = 1  # random tables; more of them with --long


def test_counts_by_key_are_sparks_whatever_happened(
    spark: SparkSession, database: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("parquet", "orc"):  # Spark's pushdown loses NaN and -0.0 of files that pyarrow wrote
        spark.conf.set(f"spark.sql.{name}.filterPushdown", "false")
    try:
        seeds = range(USUAL + request.config.getoption("--long"))
        answered = [check_seed(spark, database, tmp_path, seed, monkeypatch) for seed in seeds]
    finally:
        for name in ("parquet", "orc"):
            spark.conf.unset(f"spark.sql.{name}.filterPushdown")
    assert sum(answered) >= len(seeds)


def check_seed(spark: SparkSession, database: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of the questions the index answered."""
    rng = random.Random(seed + 7000)
    for module in (index_lookup, aggregates):  # every third index is one that is too large for the driver
        monkeypatch.setattr(module, "DRIVER_INDEX_BYTES", -1 if seed % 3 == 1 else 1 << 28)
    monkeypatch.setattr(aggregates, "PIECE_ROWS", rng.choice([1, 100, 1 << 24]))
    table = making.make_table(spark, rng, database, tmp_path)
    build(spark, rng, table)
    answered = 0
    for turn in range(2):
        for _ in range(3):
            answered += check(spark, rng, table, making.predicate(rng, table) if rng.random() < 0.7 else None)
        if turn == 0:
            for harm in rng.sample(making.HARMS, 1):
                harm(spark, rng, table, index_folders(spark, table))
    return answered


def build(spark: SparkSession, rng: random.Random, table: Table) -> None:
    """An index on each column, or one on all of them."""
    encoding = rng.choice(["gap", "plain", "ewah", "roaring"])
    names = [*table.columns]
    columns = [names] if rng.random() < 0.4 else names
    hive_bitmap.build(spark, table.name, [*columns, "id"] if rng.random() < 0.3 else columns, encoding=encoding)
    table.story.append(f"indexes {columns} {encoding}")


def check(spark: SparkSession, rng: random.Random, table: Table, predicate: str | None) -> int:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    names = [*table.columns, *table.partitioned]
    keys = rng.sample(names, min(len(names), rng.choice([1, 1, 2])))
    told = f"{keys} where {predicate}\n{table.story}"
    spark.catalog.refreshTable(table.name)
    catalog.clear_caches()
    try:
        frame = spark.table(table.name)
        expected = (frame.where(predicate) if predicate else frame).groupBy(*map(quote, keys)).count().toArrow()
    except (PySparkException, Py4JJavaError):  # not SQL in these types, or a value that ANSI refuses
        return 0
    answered = 0
    for strategy in (None, Strategy.INDEX_ONLY):
        try:
            found = hive_bitmap.group_counts(spark, table.name, predicate, keys, strategy=strategy)
        except Unsupported:
            continue
        assert found.column_names == expected.column_names, told
        assert rows(found) == rows(expected), told
        answered += strategy == Strategy.INDEX_ONLY
    return answered


def rows(found: pa.Table) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in found.to_pylist())


def index_folders(spark: SparkSession, table: Table) -> list[str]:
    _, indexes = catalog.table_and_indexes(spark, table.name)
    return [folder for index in indexes for folder in catalog.segments(spark, index)]
