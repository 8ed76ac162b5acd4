"""A program that stops Spark and starts it again in one process, each time with another warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR
from tests.programs import run_program

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import hive_bitmap
from hive_bitmap.spark.catalyst.enabling import is_enabled
folder, jar, extension = sys.argv[1:]


def start(number, **more):
    builder = SparkSession.builder.master("local[2]").enableHiveSupport().config("spark.ui.enabled", "false")
    for name, value in {
        "spark.sql.warehouse.dir": f"{folder}/{number}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/{number}/derby;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log",
        "spark.driver.host": "127.0.0.1",
        "spark.hive_bitmap.python": sys.executable,
        "spark.hive_bitmap.planning_seconds": "60",
        **more,
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def ask(spark, number):
    queries = "SELECT count(*) FROM t WHERE k = 3", "SELECT k, count(*) FROM t WHERE k < 2 GROUP BY k"
    rows = [spark.sql(query) for query in queries]
    assert rows[0].collect() == [(20 * number,)], (number, rows[0].collect())
    assert sorted(rows[1].collect()) == [(0, 20 * number), (1, 20 * number)]
    assert all("IndexAnswer" in one._jdf.queryExecution().toString() for one in rows)
    ask_functions(spark, number)
    assert "the index alone answers the aggregation" in str(hive_bitmap.explain(rows[0]))


def ask_functions(spark, number):
    assert hive_bitmap.count(spark, "t", "k = 3") == 20 * number
    for strategy in (None, "rows", "blocks", "files"):
        assert hive_bitmap.scan(spark, "t", "k = 3", strategy=strategy).count() == 20 * number, strategy
    assert hive_bitmap.plan(spark, "t", "k = 3").rows_total == 1000 * number


def make(spark, number):
    source = f"SELECT CAST(id % 50 AS INT) k, id FROM range(0, {1000 * number}, 1, 4)"
    spark.sql(f"CREATE TABLE t USING parquet AS {source}")
    spark.sql("CREATE TABLE small USING parquet AS SELECT 3 AS k")


"""

ENABLED = """
for number in (1, 2, 3):
    spark = start(number)
    assert not is_enabled(spark)
    make(spark, number)
    if number == 2:  # the functions alone; other queries stay Spark's
        hive_bitmap.build(spark, "t", ["k"])
        ask_functions(spark, number)
        assert "IndexAnswer" not in spark.sql("SELECT count(*) FROM t WHERE k = 3")._jdf.queryExecution().toString()
    hive_bitmap.enable(spark)
    if number != 2:
        assert hive_bitmap.count(spark, "t", "k = 3") == 20 * number  # it has no index here
        hive_bitmap.build(spark, "t", ["k"])
    ask(spark, number)
    if number == 2:
        hive_bitmap.disable(spark)
    spark.stop()
"""

CONFIGURED = """
for number in (1, 2):
    spark = start(number, **{"spark.jars": jar, "spark.sql.extensions": extension})
    make(spark, number)
    spark.sql("CREATE INDEX i ON TABLE t (k) AS 'BITMAP'")  # by the helper, since this process has not registered
    query = "SELECT count(*) FROM t WHERE k = 3"
    assert spark.sql(query).collect() == [(20 * number,)]
    assert "IndexAnswer" in spark.sql(query)._jdf.queryExecution().toString()
    ask(spark, number)
    hive_bitmap.disable(spark)  # of this application
    spark.stop()
"""


@pytest.mark.servers
@pytest.mark.parametrize("program", [ENABLED, CONFIGURED], ids=["enabled", "configured"])
def test_each_time_indexes_are_used_and_the_answers_are_of_that_warehouse(tmp_path: Path, program: str) -> None:
    done = run_program(SCRIPT + program, tmp_path, JAR, EXTENSION, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
