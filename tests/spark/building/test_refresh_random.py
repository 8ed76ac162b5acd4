"""Random accidents between refreshes: after each one the index has what a full rebuild makes, but for dead rows.

The oracles are a second index, built from scratch each time, `verify`, and Spark's own answers.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.segments import segment_plan
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.registry import catalog
from tests.integration import random_tables as making
from tests.integration.random_tables import Table
from tests.spark.building.test_rebuild_random import check_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
USUAL = 1  # random tables; more of them with --long
STEPS = 6
ACCIDENTS = (
    making.harm_listing,
    making.harm_listing,
    making.harm_file,
    making.harm_partitions,
    making.harm_partitions,
    making.harm_columns,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, long = (metafunc.config.getoption(name) for name in ("--seed", "--long"))
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(first, first + USUAL + long))


def test_a_refresh_makes_what_a_full_rebuild_makes_but_for_dead_rows(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(segment_plan, "MANY_SHARDS", rng.choice([1, 2, 16]))
    monkeypatch.setattr(segment_plan, "SEGMENT_BASE_BYTES", rng.choice([1, 20_000, 8 << 30]))
    table = making.make_table(spark, rng, database, tmp_path)
    columns = rng.sample(list(table.columns), rng.randint(1, len(table.columns)))
    listed = {"type": ["COMPACT", "AGGREGATE"][seed // 4 % 2]}
    kind = listed if seed % 4 == 3 else {"encoding": ["gap", "roaring", "plain", "ewah"][seed % 4]}
    for name in ("kept", "anew"):
        aggregates = "id" if kind.get("type") == "AGGREGATE" else ""
        hive_bitmap.build(spark, table.name, [columns], name=name, aggregates=aggregates, **kind)
    for step in range(STEPS):
        for harm in rng.sample(ACCIDENTS, rng.randint(0, 3)):
            harm(spark, rng, table, ())
        if rng.random() < 0.4:
            harm_slots(spark, rng, table)
        check_answers(spark, rng, table)
        if rng.random() < 0.3:
            refresh_some(spark, rng, table)
        hive_bitmap.refresh(spark, table.name, ["kept"])
        before = slots(spark, table)
        [again] = hive_bitmap.refresh(spark, table.name, ["kept"])
        assert (again.files_read, again.partitions_dropped, slots(spark, table)) == (0, 0, before), table.story
        hive_bitmap.rebuild(spark, table.name, ["anew"], full=True)
        kept, anew = (index_rows(spark, table, name) for name in ("kept", "anew"))
        dead = kept - anew
        assert not anew - kept, table.story
        assert {file for file, _ in dead}.isdisjoint(file for file, _ in anew), table.story
        assert not dead or has_dead_rows(spark, table), table.story
        check_answers(spark, rng, table)
        if step % 2:
            problems = {found.definition.name: found.problems for found in hive_bitmap.verify(spark, table.name)}
            assert problems == {"anew": (), "kept": ()}, table.story
    hive_bitmap.rebuild(spark, table.name)
    assert index_rows(spark, table, "kept") == index_rows(spark, table, "anew"), table.story


def index_rows(spark: SparkSession, table: Table, name: str) -> Counter[tuple[str, str]]:
    """The rows of an index table as any SQL user reads them: the base file and its partition, then the row."""
    [index] = [found.definition for found in hive_bitmap.show(spark, table.name) if found.definition.name == name]
    spark.catalog.refreshTable(index.sql_name)
    found = spark.table(index.sql_name).drop("hive_bitmap_segment").toArrow().to_pylist()
    by = [column.name for column in index.partitioned_by]
    return Counter((repr([row["_bucketname"], *(row[name] for name in by)]), repr(list(row.values()))) for row in found)


def has_dead_rows(spark: SparkSession, table: Table) -> bool:
    return any((one.dead_rows or 0) > 0 for one in hive_bitmap.show(spark, table.name))


def slots(spark: SparkSession, table: Table) -> dict[int, str]:
    [index] = [one for one in catalog.table_and_indexes(spark, table.name)[1] if one.definition.name == "kept"]
    return catalog.slots_of(spark, index.table)


def refresh_some(spark: SparkSession, rng: random.Random, table: Table) -> None:
    """Refresh some of the partitions."""
    base = metastore.describe(spark, table.name)
    known = [one.values for one in metastore.partitions(spark, base)] if base.partition_columns else []
    if known:
        names = [column.name for column in base.partition_columns]
        specs = [dict(zip(names, values, strict=True)) for values in rng.sample(known, rng.randint(1, len(known)))]
        hive_bitmap.refresh(spark, table.name, ["kept"], partitions=specs)


def harm_slots(spark: SparkSession, rng: random.Random, table: Table) -> None:
    """Move a slot of the index to where another one points or to no segment, or drop it."""
    now = slots(spark, table)
    what = rng.choice(["drop", "swap", "elsewhere", "none"])
    table.story.append(f"slots: {what}")
    [index] = [one for one in catalog.table_and_indexes(spark, table.name)[1] if one.definition.name == "kept"]
    number, other = (rng.choice(list(now)) for _ in range(2))
    spec = f"PARTITION (hive_bitmap_segment = {number})"
    if what == "drop":
        spark.sql(f"ALTER TABLE {index.table.spark_name} DROP {spec}")
    elif what != "none":
        folder = now[other] if what == "swap" else f"file:{table.root}/elsewhere"
        quoted = folder.replace("'", "\\'")
        spark.sql(f"ALTER TABLE {index.table.spark_name} {spec} SET LOCATION '{quoted}'")
    catalog.clear_caches()
