"""The functions in a driver whose configuration has the extension, which nobody has enabled."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR
from tests.programs import run_program

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import hive_bitmap
folder, jar, extension = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").enableHiveSupport().config("spark.ui.enabled", "false")
for name, value in {
    "spark.jars": jar,
    "spark.sql.extensions": extension,
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/derby;create=true",
    "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log",
    "spark.driver.host": "127.0.0.1",
    "spark.hive_bitmap.python": sys.executable,
    "spark.hive_bitmap.planning_seconds": "60",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 50 AS INT) k, id FROM range(0, 1000, 1, 4)")
hive_bitmap.build(spark, "t", ["k"])


def ask():
    plan = hive_bitmap.plan(spark, "t", "k = 3")
    assert (plan.rows_selected, plan.rows_total) == (20, 1000), plan
    assert hive_bitmap.count(spark, "t", "k = 3", strategy="index only") == 20
    assert hive_bitmap.scan(spark, "t", "k = 3", strategy="rows").count() == 20
    hive_bitmap.write_offsets(spark, "t", "k = 77", f"{folder}/offsets")
    assert open(f"{folder}/offsets").read() == ""


ask()
with_index = spark.sql("SELECT count(*) FROM t WHERE k = 3")
assert with_index.collect() == [(20,)] and "IndexAnswer" in with_index._jdf.queryExecution().toString()
hive_bitmap.disable(spark)
ask()
without = spark.sql("SELECT count(*) FROM t WHERE k = 3")
assert without.collect() == [(20,)] and "IndexAnswer" not in without._jdf.queryExecution().toString()
hive_bitmap.enable(spark)
ask()
spark.stop()
"""


@pytest.mark.servers
def test_they_have_the_plans_that_they_ask_for(tmp_path: Path) -> None:
    done = run_program(SCRIPT, tmp_path, JAR, EXTENSION, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
