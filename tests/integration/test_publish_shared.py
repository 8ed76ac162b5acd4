"""Several processes and one metastore: they build, drop and ask at once, and the metastore may die under them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.metastore_server import MetastoreServer

SESSION = """
import sys, random, time, os
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import hive_bitmap
from hive_bitmap.errors import AlreadyExists, BuildFailed, NotFound
from hive_bitmap.index import catalog
folder, port, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
conf = {
    "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{port}",
    "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
    "spark.driver.memory": "1g",
}
spark = hive_bitmap.session(folder / "warehouse", master="local[2]", conf=conf)

def generations():
    return {f"file:{path}" for path in folder.parent.rglob("generation-*")}

def live():
    _, indexes = catalog.table_and_indexes(spark, "t")
    return {folder for index in indexes for folder in catalog.states(spark, index).values()}

def right(keys):
    catalog.forget()
    spark.catalog.refreshTable("t")
    for key in keys:
        expected = sorted(row.id for row in spark.table("t").where(f"k = {key}").collect())
        for strategy in ("rows", None):
            try:
                found = hive_bitmap.scan(spark, "t", f"k = {key}", strategy=strategy)
            except Exception as e:
                if strategy is None:
                    raise
                continue
            assert sorted(row.id for row in found.collect()) == expected, f"{key} {strategy}"
        assert hive_bitmap.count(spark, "t", f"k = {key}") == len(expected), key
"""
CREATE = """
base = folder / "base"
for p in (1, 2):
    (base / f"p={p}").mkdir(parents=True)
    rows = {"k": pa.array([9, 8, 7] * 100, pa.int32()), "id": pa.array(range(300), pa.int64())}
    pq.write_table(pa.table(rows), base / f"p={p}" / "0.parquet")
spark.sql(f"CREATE EXTERNAL TABLE t (k int, id bigint) PARTITIONED BY (p int) STORED AS PARQUET LOCATION '{base}'")
spark.sql("ALTER TABLE t ADD PARTITION (p=1) PARTITION (p=2)")
hive_bitmap.build(spark, "t", ["k"])
(folder / "created").touch()
"""
AT_ONCE = """
STEPS, SECONDS = 60, 30
# Keys are this process's own, so that it knows what an answer has to be whatever the others append.
rng, mine, done = random.Random(number), 0, {}
parts = ["k", "id"]
end = time.monotonic() + SECONDS
for step in range(STEPS):
    if time.monotonic() > end:
        break
    what = rng.choice(["ask"] * 4 + ["append"] + ["build", "rebuild", "rebuild", "full", "drop", "clean"])
    try:
        if what == "append":
            p = rng.choice([1, 2])
            ids = pa.array(range(mine, mine + 10), pa.int64())
            rows = pa.table({"k": pa.array([number] * 10, pa.int32()), "id": ids})
            name = f"{number}-{mine}.parquet"
            pq.write_table(rows, folder / "base" / f"p={p}" / f".{name}")
            os.replace(folder / "base" / f"p={p}" / f".{name}", folder / "base" / f"p={p}" / name)
            mine += 10
        elif what == "build":
            hive_bitmap.build(spark, "t", parts)
        elif what in ("rebuild", "full"):
            hive_bitmap.rebuild(spark, "t", full=what == "full")
        elif what == "drop":
            hive_bitmap.drop(spark, "t", rng.choice(parts), if_exists=True)
        elif what == "clean":
            hive_bitmap.clean(spark, "t", grace_seconds=rng.choice([0, 5]))
        done[what] = done.get(what, 0) + 1
    except (AlreadyExists, BuildFailed, NotFound) as e:
        done[type(e).__name__] = done.get(type(e).__name__, 0) + 1
        print(what, str(e)[:300], flush=True)
    if what == "ask":
        right([number])
        assert hive_bitmap.count(spark, "t", f"k = {number}") == mine
print(done)
"""
AFTER = """
for one in hive_bitmap.show(spark, "t"):
    assert not one.problem, one
right([1, 2, 9])
try:
    hive_bitmap.build(spark, "t", ["k", "id"], if_not_exists=True)
except NotFound:
    pass
hive_bitmap.rebuild(spark, "t")
right([1, 2, 9])
_, indexes = catalog.table_and_indexes(spark, "t")
assert len(indexes) == 2
assert all(one.unindexed == one.stale == one.gone == 0 for one in hive_bitmap.show(spark, "t"))
hive_bitmap.clean(spark, grace_seconds=0)
assert all(not one.problem_count for one in hive_bitmap.verify(spark, "t"))
assert generations() == live(), generations() ^ live()
for index in indexes:
    hive_bitmap.drop(spark, "t", index.definition.name)
assert not generations()
print("nothing left")
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MetastoreServer]:
    with MetastoreServer(tmp_path / "metastore") as running:
        yield running


def begin(server: MetastoreServer, folder: Path, code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SESSION + code, str(folder), str(server.port), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(child: subprocess.Popen[str]) -> str:
    said = child.communicate(timeout=180)[0]
    assert child.returncode == 0, said[-4000:]
    return said


def test_two_processes_at_once(server: MetastoreServer, tmp_path: Path) -> None:
    """Every answer is right whatever the other does, and when both have ended nothing half is left."""
    folder = tmp_path / "shared"
    children = [begin(server, folder, CREATE + AT_ONCE, 1)]
    wait_for(children[0], folder / "created")
    children.append(begin(server, folder, AT_ONCE, 2))
    said = [end(child) for child in children]
    assert all("'ask'" in words for words in said), said
    assert "nothing left" in end(begin(server, folder, AFTER, 0))


def test_a_metastore_that_dies_before_the_switch(server: MetastoreServer, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    code = """
before = live()

def tell(done):
    if done.files == done.files_total:  # the last word of the job; what is left is to publish
        (folder / "built").touch()
        while not (folder / "dead").exists():
            time.sleep(0.01)

try:
    hive_bitmap.rebuild(spark, "t", full=True, progress=tell)
    raise SystemExit("it was published")
except BuildFailed as e:
    assert "index k could not be published, its old state stays" in str(e), e
    assert "left to clean" in str(e), e
(folder / "failed").touch()
while not (folder / "back").exists():
    time.sleep(0.01)
assert live() == before and len(generations()) == 4
right([9, 1])
left = hive_bitmap.clean(spark, "t", grace_seconds=0)
assert len(left) == 2, left
assert generations() == before
right([9, 1])
"""
    child = begin(server, folder, CREATE + code, 0)
    wait_for(child, folder / "built")
    server.kill()
    (folder / "dead").touch()
    wait_for(child, folder / "failed")
    server.start()
    (folder / "back").touch()
    end(child)


def wait_for(child: subprocess.Popen[str], path: Path) -> None:
    while not path.exists():
        assert child.poll() is None, child.communicate()[0][-4000:]
        time.sleep(0.01)
