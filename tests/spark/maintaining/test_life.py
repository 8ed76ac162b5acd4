"""The life of an index: many random steps of owners, writers and accidents; after each, answers are Spark's own."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.indexing import segment_change
from hive_bitmap.errors import BuildFailed
from hive_bitmap.spark.building import build_job
from hive_bitmap.spark.metastore import alter_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
SHORT, LONG = 60, 200  # steps of the usual run, and of a long one
PREDICATES = ("k = {}", "k <> {}", "k IN ({}, 3)", "k IS NULL OR k = {}", "k > {} AND p = 'a'", "k < {} AND id % 2 = 0")


class Life:
    """A partitioned table, its one index (or none), and what may happen to both."""

    def __init__(self, spark: SparkSession, folder: Path, rng: random.Random) -> None:
        self.spark, self.folder, self.rng = spark, folder, rng
        self.index: str | None = None
        self.files = self.names = 0
        spark.sql(
            "CREATE EXTERNAL TABLE t (k int, id bigint) PARTITIONED BY (p string)"
            f" STORED AS PARQUET LOCATION '{folder}'"
        )

    def append(self) -> None:
        self._write(f"{self.files}.parquet", self.rng.choice(self._partitions() or [self._add()]))
        self.files += 1

    def overwrite(self) -> None:
        if paths := self._paths():
            path = self.rng.choice(paths)
            self._write(path.name, path.parent)

    def delete(self) -> None:
        if paths := self._paths():
            self.rng.choice(paths).unlink()

    def add_partition(self) -> None:
        self._write("first.parquet", self._add())

    def drop_partition(self) -> None:
        if folders := self._partitions():
            value = self.rng.choice(folders).name.removeprefix("p=")
            self.spark.sql(f"ALTER TABLE t DROP PARTITION (p = '{value}')")

    def create(self) -> None:
        if self.index is None:
            self.index, self.names = f"i{self.names}", self.names + 1
            hive_bitmap.sql(self.spark, f"CREATE INDEX {self.index} ON TABLE t (k) AS 'BITMAP' WITH DEFERRED REBUILD")

    def rebuild(self) -> None:
        if self.index is not None:
            hive_bitmap.rebuild(self.spark, "t", full=self.rng.random() < 0.1, compact=self.rng.random() < 0.2)

    def rebuild_partition(self) -> None:
        if self.index is not None and (rows := self.spark.sql("SHOW PARTITIONS t").collect()):
            value = self.rng.choice(rows)[0].removeprefix("p=")
            hive_bitmap.sql(self.spark, f"ALTER INDEX {self.index} ON t PARTITION (p = '{value}') REBUILD")

    def crash(self) -> None:
        """A rebuild that fails in its tasks, at its manifests, or when the metastore is told."""
        module, name = self.rng.choice([(build_job, "run"), (segment_change, "finish"), (alter_table, "change")])
        if self.index is not None and self._paths():  # else there is nothing to do that could fail
            with (
                patch.object(module, name, side_effect=OSError("no more")),
                pytest.raises(BuildFailed, match="no more"),
            ):
                hive_bitmap.rebuild(self.spark, "t", full=True)

    def rename(self) -> None:
        if self.index is not None:
            new, self.names = f"i{self.names}", self.names + 1
            hive_bitmap.sql(self.spark, f"ALTER INDEX {self.index} ON t RENAME TO {new}")
            self.index = new

    def drop(self) -> None:
        if self.index is not None:
            hive_bitmap.sql(self.spark, f"DROP INDEX {self.index} ON t")
            self.index = None

    def clean(self) -> None:
        hive_bitmap.clean(self.spark, "t", grace_seconds=0)

    def check(self, story: list[str]) -> None:
        """Counts and rows by a random predicate, by the index where it can answer, are Spark's."""
        self.spark.catalog.refreshTable("t")
        predicate = self.rng.choice(PREDICATES).format(self.rng.randint(0, 6))
        expected = sorted(map(repr, self.spark.table("t").where(predicate).collect()))
        assert hive_bitmap.count(self.spark, "t", predicate) == len(expected), (predicate, story)
        found = hive_bitmap.scan(self.spark, "t", predicate)
        assert sorted(map(repr, found.collect())) == expected, (predicate, story)
        shown = [index.definition.name for index in hive_bitmap.show(self.spark, "t")]
        assert shown == ([self.index] if self.index else []), story

    def _partitions(self) -> list[Path]:
        there = {row[0] for row in self.spark.sql("SHOW PARTITIONS t").collect()}
        return sorted(path for path in self.folder.glob("p=*") if path.name in there)

    def _paths(self) -> list[Path]:
        return sorted(path for folder in self._partitions() for path in folder.glob("*.parquet"))

    def _add(self) -> Path:
        value = self.rng.choice("abcdef")
        self.spark.sql(f"ALTER TABLE t ADD IF NOT EXISTS PARTITION (p = '{value}')")
        folder = self.folder / f"p={value}"
        folder.mkdir(exist_ok=True)
        return folder

    def _write(self, name: str, folder: Path) -> None:
        rows = self.rng.randint(0, 60)
        keys = [self.rng.choice([None, *range(7)]) for _ in range(rows)]
        table = pa.table({"k": pa.array(keys, pa.int32()), "id": pa.array(range(rows), pa.int64())})
        pq.write_table(table, folder / f".{name}", row_group_size=16)
        os.replace(folder / f".{name}", folder / name)


STEPS_OF_A_LIFE: tuple[tuple[Callable[[Life], None], int], ...] = (
    (Life.append, 5),
    (Life.overwrite, 3),
    (Life.delete, 2),
    (Life.add_partition, 2),
    (Life.drop_partition, 1),
    (Life.create, 4),
    (Life.rebuild, 5),
    (Life.rebuild_partition, 2),
    (Life.crash, 2),
    (Life.rename, 1),
    (Life.drop, 1),
    (Life.clean, 1),
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(1 + metafunc.config.getoption("--long")))


def test_a_life(spark: SparkSession, database: str, tmp_path: Path, seed: int, pytestconfig: pytest.Config) -> None:
    rng = random.Random(seed)
    life, story = Life(spark, tmp_path, rng), []
    steps, weights = zip(*STEPS_OF_A_LIFE, strict=True)
    more = LONG if pytestconfig.getoption("--long") else SHORT
    drawn = [*rng.sample(steps, len(steps)), *rng.choices(steps, weights, k=more - len(steps))]  # each at least once
    for number, step in enumerate([Life.add_partition, Life.append, Life.create, *drawn]):
        story.append(step.__name__)
        step(life)
        if number % 2:
            life.check(story)
    life.rebuild()
    assert all(found.ok for found in hive_bitmap.verify(spark, "t")), story
    if life.index is not None:
        life.drop()
    life.clean()
    life.check(story)
