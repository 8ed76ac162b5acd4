"""Spark Connect: build, plan, scan, count and sql through `remote("local")`, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hive_bitmap.spark.session import session

NEEDED = ("grpc", "grpc_status", "google.rpc", "zstandard", "pandas")
SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")  # settings that only the server's start may set
from pyspark.sql import SparkSession, functions
import hive_bitmap
from hive_bitmap.errors import HiveBitmapError
builder = SparkSession.builder.remote("local[2]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
said = {"connect": "connect" in type(spark).__module__}
spark.sql("CREATE TABLE t (k int, s string) STORED AS PARQUET")
spark.sql("INSERT INTO t SELECT id % 7, concat('x', id % 3) FROM range(1000)")
[report] = hive_bitmap.build(spark, "t", ["k"])
hive_bitmap.sql(spark, "CREATE INDEX i ON TABLE t (s) AS 'BITMAP'")
hive_bitmap.build(spark, "t", ["s"], name="sums", aggregates="sum(k)")
summed = ("SELECT sum(_sum_of_k) FROM default__t_sums__", "SELECT sum(k) FROM t")
said["sums"] = [int(spark.sql(text).first()[0]) for text in summed]
spark.sql("INSERT INTO t SELECT id % 9, 'x1' FROM range(50)")
where = "k = 3 AND s = 'x1'"
rows = lambda frame: sorted(map(str, frame.collect()))
said["built"] = report.base_rows
said["plan"] = hive_bitmap.plan(spark, "t", where).reason
said["count"] = hive_bitmap.count(spark, "t", where)
said["expected"] = spark.table("t").where(where).count()
said["scan"] = rows(hive_bitmap.scan(spark, "t", where)) == rows(spark.table("t").where(where))
refused = 0
for ask in (
    lambda: hive_bitmap.count(spark, "t", where, strategy="index only"),
    lambda: hive_bitmap.scan(spark, "t", where, strategy="rows"),
    lambda: hive_bitmap.write_offsets(spark, "t", where, "offsets"),
    lambda: hive_bitmap.count(spark, "t", "k = 3) OR (k = 4"),
    lambda: hive_bitmap.count(spark, "t", "k ="),
    lambda: hive_bitmap.count(spark, "nowhere"),
    lambda: hive_bitmap.scan(spark, "t", where, ["nothing"]),
    lambda: hive_bitmap.build(spark, "t", ["s"], name="of_more", aggregates="sum(k * 2) AS doubled"),
    lambda: hive_bitmap.build(spark, "t", ["k % 2 AS half"]),
    lambda: hive_bitmap.build(spark, "t", [(functions.col("k") % 2).alias("half")]),
    lambda: hive_bitmap.build(spark, "t", [["s", (functions.col("k") % 2).alias("half")]]),
    lambda: hive_bitmap.estimate(spark, "t", [(functions.col("k") % 2).alias("half")]),
    lambda: hive_bitmap.sql(spark, "CREATE INDEX halves ON TABLE t (k % 2 AS half) AS 'BITMAP'"),
):
    try:
        ask()
    except HiveBitmapError as e:
        refused += 1
        said["message"] = str(e)
said["refused"] = refused
query = "SELECT k, count(*) FROM t GROUP BY k"
said["counted"] = hive_bitmap.group_counts(spark, "t", None, ["k"]).num_rows
said["sql"] = rows(hive_bitmap.sql(spark, query)) == rows(spark.sql(query))
query = f"SELECT a.k, b.s FROM t a JOIN t b ON a.k = b.k AND b.s = 'x2' WHERE a.k = 3"
said["join"] = rows(hive_bitmap.sql(spark, query)) == rows(spark.sql(query))
spark.sql("CREATE TABLE x (k int) PARTITIONED BY (p int) STORED AS TEXTFILE")
spark.sql("INSERT INTO x PARTITION (p = 1) SELECT id % 7 FROM range(100)")
[report] = hive_bitmap.build(spark, "x", ["k"])
where = "k = 3 AND p = 1"
counted = hive_bitmap.count(spark, "x", where)
said["text"] = counted == hive_bitmap.scan(spark, "x", where).count() == spark.table("x").where(where).count() > 0
print(json.dumps(said))
spark.stop()
"""


@pytest.mark.servers
def test_everything_works_without_a_jvm_at_hand(tmp_path: Path) -> None:
    missing = [name for name in NEEDED if find_spec(name.partition(".")[0]) is None]
    if missing:
        pytest.skip(f"Spark Connect needs {', '.join(missing)}: install hive_bitmap[connect]")
    warehouse = tmp_path / "warehouse"
    conf = {
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={tmp_path}/derby;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={tmp_path}/derby.log",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(session.__code__.co_filename).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(conf)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["count"] == said.pop("expected") > 0 and said["counted"] == 9
    assert said["connect"] and said["scan"] and said["sql"] and said["join"] and said["text"]
    assert said["built"] == 1000 and "spark.sql.extensions=hive_bitmap" in said["plan"]
    assert said["refused"] == 13
    assert "from a Spark Connect client: run CREATE INDEX by spark.sql" in said["message"]
    assert said["sums"][0] == said["sums"][1] > 0
    assert "indexes are not used: the server of a Spark Connect client plans" in done.stderr
