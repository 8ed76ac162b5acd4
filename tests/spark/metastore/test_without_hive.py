"""A session whose catalog is in memory: nothing is built for an index that would end with the application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests.programs import run_program
from tests.spark.maintaining.life import flat_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import hive_bitmap

spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
for _ in range(2):
    hive_bitmap.enable(spark)
spark.sql("CREATE TABLE t USING parquet AS SELECT id % 7 AS k FROM range(1000)")
before = sorted(map(str, Path().rglob("*")))
for create in (
    lambda: spark.sql("CREATE INDEX i ON t (k)"),
    lambda: spark.sql("CREATE INDEX i USING bitmap ON t (k)"),
    lambda: hive_bitmap.sql(spark, "CREATE INDEX i ON t (nope)"),
    lambda: hive_bitmap.build(spark, "t", ["k"]),
):
    try:
        create()
    except Exception as e:
        print("refused:", str(e).splitlines()[0])
print("nothing made:", sorted(map(str, Path().rglob("*"))) == before)
print(hive_bitmap.show(spark, "t"), spark.sql("SELECT count(*) FROM t WHERE k = 3").first()[0])
"""
PROBLEM = (
    "this session has no Hive metastore to keep indexes in (spark.sql.catalogImplementation is in-memory): create the "
    "session with SparkSession.builder.enableHiveSupport(), in a new process"
)


def test_nothing_is_built(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    memory.conf.set("spark.sql.catalogImplementation", "in-memory")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Unsupported) as raised:
        hive_bitmap.build(memory, flat, ["k"])
    assert str(raised.value) == PROBLEM
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.spark
def test_it_is_warned_of_once_and_refused_before_anything_is_built(tmp_path: Path) -> None:
    done = run_program(PROGRAM, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    by_spark = f"refused: [UNSUPPORTED_FEATURE] {PROBLEM}"
    by_python = f"refused: {PROBLEM}"
    assert done.stdout.splitlines() == [by_spark, by_spark, by_python, by_python, "nothing made: True", "[] 143"]
    warned = [line for line in done.stderr.splitlines() if line.startswith("no query of this session uses an index")]
    assert warned == [f"no query of this session uses an index: {PROBLEM}"]
