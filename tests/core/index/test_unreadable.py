"""What is logged of an index whose files cannot be read: damage, or that it was dropped or rebuilt meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.index import lookup, manifest
from hive_bitmap.core.stores import local_path
from hive_bitmap.spark.registry import catalog
from tests.asking import require_alike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = ("SELECT id FROM t WHERE k = 3", "SELECT k, count(*) FROM t GROUP BY k", "SELECT count(*) FROM t WHERE k < 2")
WAYS = ("index only", "blocks", "rows")


@pytest.fixture
def generation(spark: SparkSession, database: str) -> Path:
    """The only segment of an index that this session has asked."""
    spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 5 AS INT) k, id FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"])
    assert hive_bitmap.count(spark, "t", "k = 3") == 200
    [index] = catalog.table_and_indexes(spark, "t", catalog.INDEX_CACHE_SECONDS)[1]
    [folder] = catalog.segments(spark, index, catalog.INDEX_CACHE_SECONDS)
    return Path(local_path(folder))


def forget() -> None:
    """What other processes know of an index: its folder, but nothing of what is in it."""
    lookup.clear_caches()
    manifest.read.cache_clear()


def test_an_index_that_is_dropped_while_others_ask(
    spark: SparkSession, generation: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(generation)
    for forget_it in (lookup.clear_caches, forget):  # with and without its manifest in memory
        forget_it()
        with caplog.at_level("INFO", "hive_bitmap"):
            for query in QUERIES:
                require_alike(spark, query, *WAYS)
            assert hive_bitmap.count(spark, "t", "k = 3") == 200
        assert "index k was dropped or rebuilt during the query, so its files are read whole" in caplog.text
        assert "damaged" not in caplog.text
        caplog.clear()


def test_an_index_that_lacks_a_file(spark: SparkSession, generation: Path, caplog: pytest.LogCaptureFixture) -> None:
    for shard in generation.glob("*.parquet"):
        shard.unlink()
    forget()
    for query in QUERIES:
        require_alike(spark, query, *WAYS)
    assert "index k is damaged, so its files are read whole until it is rebuilt in full" in caplog.text
    assert "dropped" not in caplog.text
