"""Dropping and cleaning indexes in stores: files go by the names that builds gave, and what others put there stays."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.core.index import generation, roots
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.stores


def put(path: str, content: bytes = b"precious") -> None:
    with stores.open_output(path) as sink:
        sink.write(content)


def test_a_drop_deletes_the_files_of_its_index_alone(
    spark: SparkSession, home: str, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql("CREATE TABLE t (k int, id bigint) STORED AS PARQUET")
    spark.sql("INSERT INTO t SELECT CAST(id % 5 AS int), id FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k", "id"])
    indexes = {index.definition.name: index for index in catalog.table_and_indexes(spark, "t")[1]}
    [folder], root = catalog.segments(spark, indexes["k"]), indexes["k"].definition.root
    other = indexes["id"].definition.root
    for path in (f"{folder}/000000_0", f"{folder}/part-{'0' * 32}.parquet", f"{folder}/notes/note", f"{root}x"):
        put(path)
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        hive_bitmap.drop(spark, "t", "k")
    assert stores.listing(folder).names == ["000000_0", generation.MARKER, "notes", f"part-{'0' * 32}.parquet"]
    assert stores.listing(f"{folder}/notes").names == ["note"]
    assert stores.exists(f"{root}x") and roots.owner(root) is not None and "000000_0" in caplog.text
    hive_bitmap.drop(spark, "t", "id")
    assert not stores.exists(other)


def test_damaged_markers_are_told_and_nothing_goes(spark: SparkSession, home: str) -> None:
    spark.sql("CREATE TABLE t (k int) STORED AS PARQUET")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    hive_bitmap.build(spark, "t", ["k"])
    [index] = catalog.table_and_indexes(spark, "t")[1]
    old = f"{index.definition.root}/generation-20250101T000000-deadbeef"
    stores.make_folder(old)
    put(f"{old}/{generation.MARKER}", b'{"host": "\xff"}')
    put(f"{old}/000000_0")
    spark.sql("INSERT INTO t VALUES (3)")
    hive_bitmap.rebuild(spark, "t")
    assert [one.path for one in hive_bitmap.clean(spark, "t", grace_seconds=0) if one.kept] == [old]
    put(f"{index.definition.root}/{roots.MARKER}", b"[]")
    assert "marker _index.json is damaged" in hive_bitmap.show(spark, "t")[0].problem
    hive_bitmap.drop(spark, "t", "k")
    assert stores.listing(old).names == ["000000_0", generation.MARKER]
    assert not spark.catalog.tableExists(index.table.full_name)
