"""Random accidents between incremental rebuilds: after each one the index is what a full rebuild would have made of it.

The oracles are a second index, built anew each time, `verify`, and Spark's own answers.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.segments import segment_plan
from hive_bitmap.errors import Unsupported
from tests.integration import random_tables as making
from tests.integration.random_tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
USUAL = 1  # random tables; more of them with --long
STEPS = 4
ACCIDENTS = (making.harm_listing, making.harm_listing, making.harm_file, making.harm_partitions)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(USUAL + metafunc.config.getoption("--long")))


def test_an_incremental_rebuild_makes_what_a_full_one_makes(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(segment_plan, "MANY_SHARDS", 2)
    rng = random.Random(seed)
    table = making.make_table(spark, rng, database, tmp_path)
    columns = rng.sample(list(table.columns), rng.randint(1, len(table.columns)))
    kind = {"type": "COMPACT"} if seed % 4 == 3 else {"encoding": ["gap", "roaring", "plain", "ewah"][seed % 4]}
    for name in ("kept", "anew"):
        hive_bitmap.build(spark, table.name, [columns], name=name, **kind)
    for step in range(STEPS):
        for harm in rng.sample(ACCIDENTS, rng.randint(1, 3)):
            harm(spark, rng, table, ())
        if step == 2 and rng.random() < 0.5:
            making.harm_columns(spark, rng, table, ())
        hive_bitmap.rebuild(spark, table.name, ["kept"], compact=rng.random() < 0.3)
        hive_bitmap.rebuild(spark, table.name, ["anew"], full=True)
        assert index_rows(spark, table, "kept") == index_rows(spark, table, "anew"), table.story
        check_answers(spark, rng, table)
        if step % 2:
            problems = {found.definition.name: found.problems for found in hive_bitmap.verify(spark, table.name)}
            assert problems == {"anew": (), "kept": ()}, table.story


def index_rows(spark: SparkSession, table: Table, name: str) -> list[str]:
    """The rows of an index table as any SQL user reads them."""
    [index] = [found.definition for found in hive_bitmap.show(spark, table.name) if found.definition.name == name]
    spark.catalog.refreshTable(index.sql_name)
    rows = spark.table(index.sql_name).drop("hive_bitmap_segment").toArrow().to_pylist()
    return sorted(repr(list(row.values())) for row in rows)


def check_answers(spark: SparkSession, rng: random.Random, table: Table) -> None:
    spark.catalog.refreshTable(table.name)
    predicates = [f"{name} IS NOT NULL" for name in table.columns] + [making.predicate(rng, table) for _ in range(2)]
    for predicate in predicates:
        try:
            expected = spark.table(table.name).where(predicate).count()
        except Exception:  # noqa: BLE001 - not SQL in these types, or a value that ANSI refuses
            continue
        for strategy in ("index only", None):
            try:
                assert hive_bitmap.count(spark, table.name, predicate, strategy=strategy) == expected, table.story
            except Unsupported:
                continue
