"""Two builders refresh, rebuild and compact one index at once, while files of its table come, change and go.

No slot ever points at a segment that is not complete, no file is covered twice once both have ended, and one more
refresh covers each file as it is. It runs without Spark, on the metastore in memory, whose changes are delayed. `--long
N` makes N times as many rounds.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hive_bitmap
from hive_bitmap.core.index import generation_names, manifest
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.spark.building.build import BuildReport
from hive_bitmap.spark.metastore import alter_table, base_files, metastore
from hive_bitmap.spark.registry import catalog
from tests.spark.maintaining.life import parted_table, repair, require_verified, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.metastore.memory import MemoryMetastore

pytestmark = pytest.mark.random
ROUNDS = 20
PARTITIONS = 4


def test_two_builders(
    in_memory: MemoryMetastore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pytestconfig: pytest.Config,
    tell_of_campaign: Callable[[str], None],
) -> None:
    rng = random.Random(pytestconfig.getoption("--seed"))
    builders = [in_memory.session(), in_memory.session()]
    spark, folder = builders[0], tmp_path / "t"
    parted_table(spark, folder, PARTITIONS)
    hive_bitmap.build(spark, "parted", ["k"])
    monkeypatch.setattr(alter_table, "change", delayed(rng, alter_table.change))
    caplog.set_level(logging.INFO, "hive_bitmap")
    rounds, read, made = ROUNDS * (pytestconfig.getoption("--long") or 1), 0, Counter[int]()
    for number in range(rounds):
        change(spark, rng, folder, number)
        plans = [[act_of(rng) for _ in range(rng.randint(1, 3))] for _ in builders]
        done, looked = threading.Event(), 0
        with ThreadPoolExecutor(3) as threads:
            looking = threads.submit(look, in_memory.session(), done)
            building = [threads.submit(run, *pair) for pair in zip(builders, plans, strict=True)]
            time.sleep(rng.random() / 10)
            change(spark, rng, folder, number)
            for one in building:
                one.result()
            done.set()
            looked = looking.result()
        assert looked > 0
        require_none_twice(spark)
        read += sum(report.files_read for report in hive_bitmap.refresh(spark, "parted"))
        require_all_covered(spark)
        [again] = hive_bitmap.refresh(spark, "parted")
        assert (again.files_read, again.partitions_dropped) == (0, 0)
        made[again.segments] += 1
        if number % 10 == 9:
            require_verified(spark, "parted")
            hive_bitmap.clean(spark, grace_seconds=0)
    tell_of_campaign(
        f"two builders at once, {rounds} times: no file covered twice; {caplog.text.count('are repaired')} mendings, "
        f"{read} files left to one more refresh, at most {max(made)} segments"
    )


def delayed(rng: random.Random, change: Callable[..., None]) -> Callable[..., None]:
    """Return a function that waits before it changes slots, and after."""

    def later(*given: object, **named: object) -> None:
        time.sleep(rng.random() / 20)
        change(*given, **named)
        time.sleep(rng.random() / 20)

    return later


Act = Callable[["SparkSession"], Sequence[BuildReport]]


def act_of(rng: random.Random) -> Act:
    """Draw what a builder does."""
    p = rng.randint(1, PARTITIONS)
    acts: list[Act] = [
        lambda spark: hive_bitmap.refresh(spark, "parted"),
        lambda spark: hive_bitmap.refresh(spark, "parted", partitions=[{"p": str(p)}]),
        lambda spark: hive_bitmap.rebuild(spark, "parted"),
        lambda spark: hive_bitmap.rebuild(spark, "parted", compact=True),
        lambda spark: hive_bitmap.rebuild(spark, "parted", full=True),
    ]
    return rng.choices(acts, [4, 2, 2, 1, 1])[0]


def run(spark: SparkSession, acts: Sequence[Act]) -> None:
    for act in acts:
        act(spark)


def change(spark: SparkSession, rng: random.Random, folder: Path, number: int) -> None:
    """Write, replace or delete some files."""
    for _ in range(rng.randint(0, 3)):
        place = folder / f"p={rng.randint(1, PARTITIONS)}"
        match rng.choice(["new", "new", "replace", "delete"]):
            case "new":
                write(place, 1, first=100 + number % 20)
            case "replace":
                write(place, 1)
            case "delete":
                (place / "1.parquet").unlink(missing_ok=True)
    repair(spark, "parted")


def segments(spark: SparkSession) -> Covered:
    [index] = catalog.table_and_indexes(spark, "parted")[1]
    return Covered.by([manifest.read(folder) for folder in catalog.segments(spark, index)])


def look(spark: SparkSession, done: threading.Event) -> int:
    """Look at the slots until the builders are done: each points at a complete segment, or at the empty folder."""
    [index] = catalog.table_and_indexes(spark, "parted")[1]
    empty, looked = generation_names.empty_folder(index.definition.root), 0
    while not done.is_set() or not looked:
        for folder in set(catalog.slots_of(spark, index.table).values()) - {empty}:
            assert manifest.read(folder).folder == folder
        looked += 1
        done.wait(0.01)
    return looked


def require_none_twice(spark: SparkSession) -> None:
    covered = segments(spark)
    assert not covered.after_another(np.ones(covered.files.num_rows, bool)).any()


def require_all_covered(spark: SparkSession) -> None:
    """Check that the segments cover exactly the files of the table, but for those that are gone."""
    covered = segments(spark)
    known = {
        (tuple(row["values"]), row["path"]): (row["size"], row["mtime_ms"])
        for row in covered.files.select(["values", "path", "size", "mtime_ms"]).to_pylist()
    }
    assert len(known) == covered.files.num_rows
    for source in base_files.sources(spark, metastore.describe(spark, "parted")):
        for file in source.files:
            assert known[source.values, file.path] == (file.size, file.mtime_ms)
