"""Test that modules are left out of the garbage collections between tasks."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from hive_bitmap.spark.tasks.distribution import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frozen_after(_: int) -> int:
    import gc

    return gc.get_freeze_count()


def test_a_worker_that_has_run_a_task_does_not_visit_modules_again(spark: SparkSession) -> None:
    in_tasks(spark, [0], frozen_after)
    assert max(in_tasks(spark, [0, 1], frozen_after)) > 10_000  # a second worker may be new


def test_modules_are_freed_at_the_end_and_loaded_ones_are_frozen_once() -> None:
    code = """
import gc, sys
from hive_bitmap.spark.tasks.distribution import freeze_modules
freeze_modules()
first = gc.get_freeze_count()
kept = [[] for _ in range(1000)]
freeze_modules()
assert gc.get_freeze_count() == first, "frozen again without new modules"
import decimal, duckdb
freeze_modules()
assert gc.get_freeze_count() > first + 1000
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
