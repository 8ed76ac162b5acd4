"""Random accidents between refreshes: after each one a rebuild would find nothing to do, except damage to repair.

The oracles are the preview of a rebuild, which believes no record; `verify`; and Spark's own answers.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.table_info import partition_name, partition_spec
from hive_bitmap.spark.building.preview import preview
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.registry import catalog
from tests.integration import random_tables as making
from tests.integration.random_tables import Table
from tests.spark.building.test_rebuild_random import check_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
USUAL = 1  # random tables; more of them with --long
STEPS = 8
OF_THE_TABLE = (
    making.harm_listing,
    making.harm_listing,
    making.harm_file,
    making.harm_partitions,
    making.harm_partitions,
    making.harm_columns,
    making.recreate,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, long = (metafunc.config.getoption(name) for name in ("--seed", "--long"))
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(first, first + USUAL + long))


def test_a_refresh_leaves_a_rebuild_nothing_but_repairs(
    spark: SparkSession, database: str, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    table = making.make_table(spark, rng, database, tmp_path)
    columns = rng.sample(list(table.columns), rng.randint(1, len(table.columns)))
    hive_bitmap.build(spark, table.name, [columns], name="i", encoding=rng.choice(["gap", "roaring", "ewah"]))
    hive_bitmap.build(spark, table.name, [columns[:1]], name="j", type=rng.choice(["BITMAP", "COMPACT"]))
    for step in range(STEPS):
        for harm in rng.sample(OF_THE_TABLE, rng.randint(0, 3)):
            harm(spark, rng, table, ())
        damaged = harm_index(spark, rng, table) if rng.random() < 0.5 else set()
        if rng.random() < 0.3:
            refresh_some(spark, rng, table, damaged)
        hive_bitmap.refresh(spark, table.name)
        assert left_to_do(spark, table) <= damaged, (step, table.story)
        again = hive_bitmap.refresh(spark, table.name)
        assert [(one.base_files, one.files_read, one.partitions_dropped) for one in again] == [(0, 0, 0)] * 2
        check_answers(spark, rng, table)
        if damaged:
            hive_bitmap.rebuild(spark, table.name, full=True)  # which finds a flipped bit, too
        if step % 3 == 2:
            problems = {found.definition.name: found.problems for found in hive_bitmap.verify(spark, table.name)}
            assert problems == {"i": (), "j": ()}, table.story


def refresh_some(spark: SparkSession, rng: random.Random, table: Table, damaged: set[str]) -> None:
    """Refresh some of the partitions; then nothing is left to do for them, whatever is left for others."""
    base = metastore.describe(spark, table.name)
    if not base.partition_columns:
        return
    names = [column.name for column in base.partition_columns]
    known = [one.values for one in metastore.partitions(spark, base)]
    specs = [dict(zip(names, values, strict=True)) for values in rng.sample(known, rng.randint(1, len(known)))]
    hive_bitmap.refresh(spark, table.name, partitions=specs)
    for spec in specs:
        left = {one.name for found in preview(spark, table.name, partition=spec) for one in found.partitions}
        assert left <= damaged, table.story


def left_to_do(spark: SparkSession, table: Table) -> set[str]:
    """The partitions that a rebuild would change."""
    return {partition.name for found in preview(spark, table.name) for partition in found.partitions}


def harm_index(spark: SparkSession, rng: random.Random, table: Table) -> set[str]:
    """Harm index i or j; return the partitions in which a refresh sees no damage, which a rebuild has to repair."""
    index = rng.choice(catalog.table_and_indexes(spark, table.name)[1])
    published = catalog.published_generations(spark, index)
    names = [column.name for column in index.table.partition_columns]
    what = rng.choice(["file", "encoding", "location", "drop", "swap"])
    table.story.append(f"index {index.definition.name}: {what}")
    if what == "encoding" and index.definition.has_bitmaps:
        encoding = rng.choice(["gap", "roaring", "ewah", "plain"])
        hive_bitmap.set_properties(spark, table.name, index.definition.name, {"encoding": encoding})
    elif what == "file" and published:
        values = rng.choice(list(published))
        making.harm_index(spark, rng, table, [published[values]])
        return {partition_name(names, values)}
    elif names and published:
        values, other = (rng.choice(list(published)) for _ in range(2))
        spec = partition_spec(index.table, values)
        if what == "drop":
            spark.sql(f"ALTER TABLE {index.table.spark_name} DROP PARTITION {spec}")
        else:
            folder = published[other] if what == "swap" else f"file:{table.root}/elsewhere"
            quoted = folder.replace("'", "\\'")
            spark.sql(f"ALTER TABLE {index.table.spark_name} PARTITION {spec} SET LOCATION '{quoted}'")
        catalog.clear_caches()
    return set()
