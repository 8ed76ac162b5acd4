"""Tests of dropping an index, some of its partitions, or a table with its indexes; nothing else may be deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidPredicate, NotFound, Unsupported
from tests.spark.maintaining.life import flat_table, generations, parted_table, require_right, status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.contract
def test_some_partitions(spark: SparkSession, database: str, tmp_path: Path) -> None:
    parted = parted_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, parted, ["k"], where="p IN (1, 2, 3)")
    for where, error in (("p = 4", NotFound), ("p = 9", NotFound), ("id = 1", InvalidPredicate)):
        with pytest.raises(error):
            hive_bitmap.drop(spark, parted, "k", where=where)
    assert hive_bitmap.drop(spark, parted, "k", where="p = 2")
    assert [(one.name, one.fresh) for one in status(spark, parted).partitions] == [("p=1", 2), ("p=3", 2)]
    require_right(spark, parted)
    hive_bitmap.rebuild(spark, parted)
    assert [one.name for one in status(spark, parted).partitions] == ["p=1", "p=3"]
    with pytest.raises(NotFound, match="index k covers no partition where p = 2"):
        hive_bitmap.drop(spark, parted, "k", where="p = 2")
    hive_bitmap.extend(spark, parted, "k", "p = 2 -- the second")
    assert [(one.name, one.fresh) for one in status(spark, parted).partitions] == [("p=1", 2), ("p=2", 2), ("p=3", 2)]
    assert hive_bitmap.drop(spark, parted, "k", where="p < 4") and hive_bitmap.show(spark, parted) == []
    assert generations(spark, database) == []


def test_some_partitions_of_an_index_on_all(memory: SparkSession, tmp_path: Path) -> None:
    parted = parted_table(memory, tmp_path / "t", 1)
    hive_bitmap.build(memory, parted, ["k"])
    said = "index k covers all partitions: only partitions of an index that was created with WHERE can be dropped"
    with pytest.raises(Unsupported, match=said):
        hive_bitmap.drop(memory, parted, "k", where="p = 1")
    with pytest.raises(Unsupported, match="already covers all partitions"):
        hive_bitmap.extend(memory, parted, "k", "p = 1")


def test_a_drop_deletes_what_builds_wrote_and_nothing_else(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"], location=str(tmp_path / "i"))
    hive_bitmap.build(memory, flat, ["id"], location=str(tmp_path / "j"))
    hive_bitmap.rebuild(memory, flat, full=True)
    (tmp_path / "i" / "note").write_text("mine")
    with pytest.raises(NotFound, match="no index 'nope' in table flat; known: id, k"):
        hive_bitmap.drop(memory, flat, "nope")
    assert not hive_bitmap.drop(memory, flat, "nope", if_exists=True)
    assert hive_bitmap.drop(memory, flat, "k") and hive_bitmap.drop(memory, flat, "id")
    assert [path.name for path in (tmp_path / "i").iterdir()] == ["note"]
    assert not (tmp_path / "j").exists() and len(list((tmp_path / "t").iterdir())) == 2


def test_a_table_goes_with_its_indexes(spark: SparkSession, database: str, tmp_path: Path) -> None:
    flat = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, flat, ["k", "id"])
    hive_bitmap.build(spark, flat, [["k", "id"]], index_table="other")
    spark.sql("CREATE VIEW v AS SELECT * FROM flat")
    for name, error in (("v", Unsupported), ("nope", NotFound)):
        with pytest.raises(error):
            hive_bitmap.drop_table(spark, name)
    spark.sql("DROP VIEW v")
    hive_bitmap.drop_table(spark, flat)
    left = [table.name for table in spark.catalog.listTables() if not table.isTemporary]
    assert left == [] and generations(spark, database) == []
