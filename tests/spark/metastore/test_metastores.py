"""Index tables in metastores of their own process, of Hive 2.3 and of Hive 4, through Spark's client for each.

A client is chosen when a JVM starts, so each session is a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.metastore import Metastore

pytestmark = pytest.mark.hive

SESSION = """
import json, sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import hive_bitmap
from hive_bitmap.errors import BuildFailed, ServerError
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.metastore import alter_table, metastore, table_ddl
from hive_bitmap.core import table_info
from hive_bitmap.core.segments import slots
from hive_bitmap.spark.metastore.protocol import Changes
folder, conf, warehouse = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
spark = hive_bitmap.session(folder / "warehouse", master="local[2]", conf={**conf, "spark.driver.memory": "1g"})
"""
LIFE = """
def right():
    assert hive_bitmap.count(spark, "t", "k = 9") == spark.table("t").where("k = 9").count() == expected
    some = "k = 9 AND p < 3"
    found, rows = hive_bitmap.scan(spark, "t", some).collect(), spark.table("t").where(some).collect()
    assert sorted(row.id for row in found) == sorted(row.id for row in rows)
    [index] = catalog.table_and_indexes(spark, "t")[1]
    assert not index.problem, index.problem
    assert index.table.kind == "EXTERNAL", index
    assert not slots.foreign(catalog.slots_of(spark, index.table), index.definition)
    return index

spark.sql(f"CREATE DATABASE life LOCATION '{warehouse}/life.db'")
spark.catalog.setCurrentDatabase("life")
spark.sql("CREATE TABLE t (k int, id bigint) PARTITIONED BY (p int) STORED AS PARQUET")
spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
spark.range(600).selectExpr("cast(id % 3 + 7 as int)", "id", "cast(id % 4 as int)").write.insertInto("t")
expected = 200
hive_bitmap.build(spark, "t", ["k"])
home = table_info.hadoop_path(spark.catalog.getDatabase("life").locationUri)
assert right().definition.root.startswith(f"{home}/life__t_k__-")
spark.range(9, 10).selectExpr("9", "id", "7").write.insertInto("t")
spark.sql("ALTER TABLE t DROP PARTITION (p=3)")
expected = spark.table("t").where("k = 9").count()
hive_bitmap.rebuild(spark, "t")
assert len(catalog.segments(spark, right())) == 2  # the old one without p=3, and the new partition
[nothing] = hive_bitmap.refresh(spark, "t")
assert (nothing.untouched, nothing.files_read) == (4, 0), nothing
hive_bitmap.sql(spark, "ALTER INDEX k ON t SET IDXPROPERTIES ('encoding'='ewah')")
hive_bitmap.rebuild(spark, "t")
assert right().definition.encoding == "ewah"
hive_bitmap.sql(spark, "ALTER INDEX k RENAME TO l")
assert right().table.name == "life__t_l__"
[(name,)] = spark.sql("SHOW TABLES LIKE 'life__*'").select("tableName").collect()
assert name == "life__t_l__"
hive_bitmap.clean(spark, grace_seconds=0)
hive_bitmap.drop(spark, "t", "l")
assert spark.sql("SHOW TABLES LIKE 'life__*'").count() == 0
assert not list(folder.parent.rglob("generation-*")) and not list(Path(warehouse).rglob("generation-*"))

# More partitions than one call takes: added and moved.
spark.sql(f"CREATE EXTERNAL TABLE many (k int) PARTITIONED BY (p int) STORED AS PARQUET LOCATION '{folder}/many'")
table = metastore.describe(spark, "many")

def state():
    return {partition.values: partition.location for partition in metastore.partitions(spark, table)}

values = [(str(p),) for p in range(table_ddl.AT_ONCE + 5)]
for place, how in (("a", "added"), ("b%20 b", "moved")):
    wanted = {one: f"file:{folder}/many/{place}/{one[0]}" for one in values}
    alter_table.change(spark, table, **{how: wanted})
    assert state() == wanted
"""
REFUSED = """
spark.sql("CREATE DATABASE refused")
spark.catalog.setCurrentDatabase("refused")
spark.sql(f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{folder}/t' AS SELECT 1 k")
managed = Path(warehouse).with_name("managed") / "refused"
try:
    hive_bitmap.build(spark, "t", ["k"], location=str(managed))
    raise SystemExit("it was not refused")
except BuildFailed as e:
    assert "location should not be located within managed warehouse root" in str(e), e
    assert "give another LOCATION" in str(e) and len(str(e).splitlines()) == 1, e
assert not list(managed.rglob("generation-*"))
hive_bitmap.build(spark, "t", ["k"], location=f"{folder}/elsewhere")
assert hive_bitmap.count(spark, "t", "k = 1") == 1
hive_bitmap.drop(spark, "t", "k")
spark.sql(f"CREATE DATABASE within LOCATION 'file:{managed}.db'")  # which this metastore moves out of there
spark.sql(f"CREATE EXTERNAL TABLE within.t STORED AS PARQUET LOCATION '{folder}/t2' AS SELECT 1 k")
hive_bitmap.build(spark, "within.t", ["k"])
[index] = catalog.table_and_indexes(spark, "within.t")[1]
assert index.definition.root.startswith(f"file:{warehouse}/"), index
"""
OLD_CLIENT = """
try:
    hive_bitmap.show(spark, "t")
    raise SystemExit("it answered")
except ServerError as e:
    assert "the metastore has another version than the session's client" in str(e), e
    assert "set spark.sql.hive.metastore.version" in str(e) and len(str(e).splitlines()) == 1, e
"""


def run(server: Metastore, folder: Path, code: str, conf: dict[str, str] | None = None) -> None:
    folder.mkdir()
    arguments = [str(folder), json.dumps(conf or server.conf), str(server.warehouse)]
    command = [sys.executable, "-c", SESSION + code, *arguments]
    child = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert child.returncode == 0, (child.stdout + child.stderr)[-4000:]


def test_hive_2(metastore2: Metastore, tmp_path: Path) -> None:
    run(metastore2, tmp_path / "shared", LIFE)


@pytest.mark.xdist_group("hive4")
def test_hive_4(metastore4: Metastore, tmp_path: Path) -> None:
    """Managed tables become external there, and external ones are refused in the folder of managed ones."""
    run(metastore4, tmp_path / "shared", LIFE + REFUSED)


@pytest.mark.xdist_group("hive4")
def test_the_client_of_another_version(metastore4: Metastore, tmp_path: Path) -> None:
    conf = {name: value for name, value in metastore4.conf.items() if "sql.hive.metastore" not in name}
    run(metastore4, tmp_path / "shared", OLD_CLIENT, conf)
