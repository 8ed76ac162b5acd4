"""Random accidents between incremental rebuilds: after each one the index is what a full rebuild would have made of it.

The oracles are a second index, built anew each time, `verify`, and Spark's own answers.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.index import aggregate_columns
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
    listed = {"type": ["COMPACT", "AGGREGATE"][seed // 4 % 2]}
    kind = listed if seed % 4 == 3 else {"encoding": ["gap", "roaring", "plain", "ewah"][seed % 4]}
    aggregates = (
        "" if kind.get("type") == "COMPACT" else drawn_aggregates(rng, {"id": "bigint", **table.columns}, columns)
    )
    for name in ("kept", "anew"):
        hive_bitmap.build(spark, table.name, [columns], name=name, aggregates=aggregates, **kind)
    for step in range(STEPS):
        for harm in rng.sample(ACCIDENTS, rng.randint(1, 3)):
            harm(spark, rng, table, ())
        if step == 2 and rng.random() < 0.5:
            making.harm_columns(spark, rng, table, ())
        hive_bitmap.rebuild(spark, table.name, ["kept"], compact=rng.random() < 0.3)
        hive_bitmap.rebuild(spark, table.name, ["anew"], full=True)
        assert index_rows(spark, table, "kept") == index_rows(spark, table, "anew"), table.story
        check_answers(spark, rng, table)
        if aggregates:
            check_aggregates(spark, table)
        if step % 2:
            problems = {found.definition.name: found.problems for found in hive_bitmap.verify(spark, table.name)}
            assert problems == {"anew": (), "kept": ()}, table.story


def drawn_aggregates(rng: random.Random, columns: dict[str, str], keys: list[str]) -> str:
    """Aggregates of most columns that are no keys: all that their types have."""
    parts = ["count(*)"]
    for name, type in columns.items():
        if name not in keys and rng.random() < 0.8:
            has_all = type.partition("(")[0] in aggregate_columns.COMPARED
            parts.append(name if has_all else f"count({name})")
    return ", ".join(parts)


def check_aggregates(spark: SparkSession, table: Table) -> None:
    """Compare the sums of all rows of an index with Spark's, if each file is indexed and none is unknown."""
    [status] = [found for found in hive_bitmap.show(spark, table.name) if found.definition.name == "kept"]
    spark.catalog.refreshTable(status.definition.sql_name)
    stored, of_table = [], []
    for aggregate in status.definition.aggregates:
        name, merged = aggregate.stored.name, "sum" if aggregate.function == "count" else aggregate.function
        column = "*" if aggregate.column is None else aggregate.column.name
        stored.append(f"{merged}({name})")
        is_integer = aggregate.function == "sum" and not aggregate.column.type.startswith("decimal")
        of_table.append(f"{aggregate.function}({f'CAST({column} AS DECIMAL(38,0))' if is_integer else column})")
        stored.append(f"count_if({name} IS NULL)" if aggregate.function == "count" else "0")
        of_table.append("0")
    [found] = spark.table(status.definition.sql_name).selectExpr(*stored).collect()
    if status.unindexed or status.stale or any(found[1::2]):
        return
    spark.catalog.refreshTable(table.name)
    [expected] = spark.table(table.name).selectExpr(*of_table).collect()
    rows = expected[0]
    assert tuple(found) == tuple(expected) or (rows == 0 and not any(found)), table.story


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
