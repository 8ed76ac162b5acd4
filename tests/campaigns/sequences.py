"""Random pipelines over tables whose files Spark reads in another order than it lists them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hive_bitmap
from tests.asking import OFF, STRICT, under
from tests.spark.catalyst.split_tables import SplitTable

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

WAYS = ("", "rows", "rows by tasks", "blocks", "files", "late")
Rows = list[tuple[Any, ...]]
Step = tuple[str, Callable[["DataFrame"], "DataFrame"]]


class Sequences:
    """A table of random files, to which files are added, and pipelines over it; `story` tells what was done."""

    def __init__(self, spark: SparkSession, rng: random.Random, folder: Path) -> None:
        self._spark, self._rng = spark, rng
        format, partitioned = rng.choice(["parquet", "orc"]), rng.random() < 0.4
        self._sizes = [rng.choice([1, 300, 2500, 6000, 9000]) for _ in range(rng.randint(2, 5))]
        self.story = [f"{format}, partitioned {partitioned}, files of {self._sizes} rows"]
        self._table = SplitTable(spark, folder, format, partitioned=partitioned)
        self._table.create(*self._sizes)
        self._columns = ["id", "k", "s", "pad", *(["p"] if partitioned else [])]
        self.done: Counter[str] = Counter()

    def change(self) -> None:
        """Add files, which no index knows, or index all."""
        if self._rng.random() < 0.7:
            sizes = [self._rng.choice([1, 500, 4000]) for _ in range(self._rng.randint(1, 3))]
            self._table.grow(*sizes)
            self.story.append(f"files of {sizes} rows more")
        else:
            hive_bitmap.rebuild(self._spark, "t")
            self.story.append("rebuilt")

    def check(self) -> str:
        """Compare a pipeline with plain Spark, as a sequence, in two ways; how it differs, or nothing."""
        steps, last = self._steps(), self._rng.choice(LASTS)
        name = f"{' | '.join(text for text, _ in steps)} | {last.__name__}"
        wanted = self._rows(OFF, steps, last)
        self.done[last.__name__] += 1
        for way in self._rng.sample(WAYS, 2):
            found = self._rows(_settings(way), steps, last)
            self.done[way or "by cost"] += 1
            if found != wanted:
                same = "the same rows" if Counter(found) == Counter(wanted) else "other rows"
                return "\n".join([*self.story, f"{way or 'by cost'}: {name}: {same}, {found[:9]}, {wanted[:9]}"])
        return ""

    def _rows(self, settings: dict[str, str], steps: list[Step], last: Callable[[Any], Rows]) -> Rows:
        with under(self._spark, settings):
            found = self._spark.table("t")
            for _, step in steps:
                found = step(found)
            try:
                return last(found)
            finally:
                self._spark.catalog.clearCache()

    def _steps(self) -> list[Step]:
        """A filter of indexed columns, and what a draw puts around it."""
        rng = self._rng
        conditions = [f"k = {rng.randrange(40)}", "k IN (1, 5, 9)", f"s = '{rng.randrange(9)}' AND k < 12", "k < 3"]
        steps = [_filter(rng.choice(conditions))]
        if "p" in self._columns and rng.random() < 0.4:
            steps.append(_filter(f"p = {rng.randrange(2)}"))
        return steps + [self._step() for _ in range(rng.randint(0, 3))]

    def _step(self) -> Step:
        rng = self._rng
        columns = ["id", *rng.sample(self._columns[1:], rng.randint(0, len(self._columns) - 1))]
        seed, few = rng.randrange(9), rng.randrange(1, 60)
        steps: list[Step] = [
            (f"select {columns}", lambda found: found.select("id", *(c for c in columns[1:] if c in found.columns))),
            _filter("id % 3 <> 1"),
            (f"limit {few}", lambda found: found.limit(few)),
            (f"sample {seed}", lambda found: found.sample(fraction=0.5, seed=seed)),
            (f"split {seed}", lambda found: found.randomSplit([0.7, 0.3], seed=seed)[1]),
            ("union", lambda found: found.union(found)),
            ("numbers", lambda found: found.selectExpr("*", f"monotonically_increasing_id() AS n{seed}")),
            ("drawn", lambda found: found.selectExpr("*", f"rand({seed}) AS r{seed}")),
            ("cache", lambda found: found.cache()),
            ("sorted in partitions", lambda found: found.sortWithinPartitions("id")),
        ]
        return rng.choice(steps)


def _filter(condition: str) -> Step:
    return f"where {condition}", lambda found: found.where(condition)


def _settings(way: str) -> dict[str, str]:
    if way == "late":
        return {"hive_bitmap.enabled": "true", "hive_bitmap.planning_seconds": "0"}
    tasks = {"hive_bitmap.driver_read_bytes": "0"} if way == "rows by tasks" else {}
    return {**STRICT, "hive_bitmap.strategy": "rows" if tasks else way, **tasks}


def collected(found: DataFrame) -> Rows:
    return [tuple(row) for row in found.collect()]


def numbered(found: DataFrame) -> Rows:
    return [(*row, number) for row, number in found.rdd.zipWithIndex().collect()]


def labelled(found: DataFrame) -> Rows:
    """The labels of a pandas-on-Spark frame of which columns are fetched by themselves."""
    frame = found.pandas_api()
    fetched = [frame[[column]].to_pandas() for column in found.columns[:2]]
    return [tuple(row) for one in fetched for row in zip(one.index.tolist(), one.iloc[:, 0].tolist(), strict=True)]


def head(found: DataFrame) -> Rows:
    return [tuple(row) for row in found.head(7)]


LASTS: list[Callable[[Any], Rows]] = [collected, numbered, labelled, head]
