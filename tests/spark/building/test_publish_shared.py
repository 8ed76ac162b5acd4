"""Several processes and one metastore: they build, drop and ask at once, and the metastore may die under them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers import metastore2 as metastore2_server
from tests.servers import process
from tests.servers.metastore import Metastore

pytestmark = pytest.mark.hive

SESSION = """
import sys, json, random, time, os
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import hive_bitmap
from hive_bitmap.errors import AlreadyExists, BuildFailed, HiveBitmapError, NotFound
from hive_bitmap.spark.registry import catalog
folder, conf, number, rounds = Path(sys.argv[1]), json.loads(sys.argv[2]), *map(int, sys.argv[3:])
spark = hive_bitmap.session(folder / "warehouse", master="local[2]", conf={**conf, "spark.driver.memory": "1g"})
spark.sql("CREATE DATABASE IF NOT EXISTS shared")
spark.catalog.setCurrentDatabase("shared")
rng = random.Random(number)

def generations():
    return {f"file:{path}" for path in folder.parent.rglob("generation-*")}

def live():
    _, indexes = catalog.table_and_indexes(spark, "t")
    return {folder for index in indexes for folder in catalog.segments(spark, index)}

def right(*keys):
    catalog.clear_caches()
    spark.catalog.refreshTable("t")
    for key in keys:
        expected = sorted(row.id for row in spark.table("t").where(f"k = {key}").collect())
        try:
            found = hive_bitmap.scan(spark, "t", f"k = {key}", strategy=rng.choice(["rows", None]))
        except HiveBitmapError:  # there is no index for the moment
            found = hive_bitmap.scan(spark, "t", f"k = {key}")
        assert sorted(row.id for row in found.collect()) == expected, key
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
# Keys are this process's own, so that it knows what an answer has to be whatever the others append.
mine, done = 0, {}

def append():
    global mine
    folder_of = folder / "base" / f"p={rng.choice([1, 2])}"
    rows = pa.table({"k": pa.array([number] * 10, pa.int32()), "id": pa.array(range(mine, mine + 10), pa.int64())})
    pq.write_table(rows, folder_of / f".{number}-{mine}.parquet")
    os.replace(folder_of / f".{number}-{mine}.parquet", folder_of / f"{number}-{mine}.parquet")
    mine += 10

def attempt(step, *arguments, **options):
    name = step.__name__
    try:
        step(*arguments, **options)
    except (AlreadyExists, BuildFailed, NotFound) as e:
        name = type(e).__name__
        print(step.__name__, str(e)[:300], flush=True)
    done[name] = done.get(name, 0) + 1

for _ in range(rounds):
    attempt(hive_bitmap.build, spark, "t", ["k"])
    right(number)
    match rng.choice(["append", "rebuild", "full", "other", "clean"]):
        case "append":
            append()
        case "rebuild":
            attempt(hive_bitmap.rebuild, spark, "t")
        case "full":
            attempt(hive_bitmap.rebuild, spark, "t", full=True)
        case "other":
            attempt(hive_bitmap.build, spark, "t", ["id"], if_not_exists=True)
        case "clean":
            attempt(hive_bitmap.clean, spark, "t", grace_seconds=rng.choice([0, 5]))
    right(9)
    assert hive_bitmap.count(spark, "t", f"k = {number}") == mine
    attempt(hive_bitmap.drop, spark, "t", "k", if_exists=True)
    right(number)
print(done)
"""
AFTER = """
for one in hive_bitmap.show(spark, "t"):
    assert not one.problem, one
right(1, 2, 9)
try:
    hive_bitmap.build(spark, "t", ["k", "id"], if_not_exists=True)
except NotFound:
    pass
hive_bitmap.rebuild(spark, "t")
right(1, 2, 9)
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


LEFT_ALONE = """
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
    assert "index k could not be published, its old state remains" in str(e), e
    assert "run clean to delete its new files" in str(e), e
(folder / "failed").touch()
while not (folder / "back").exists():
    time.sleep(0.01)
assert live() == before and len(generations()) == 2
right(9, 1)
left = hive_bitmap.clean(spark, "t", grace_seconds=0)
assert len(left) == 1, left
assert generations() == before
right(9, 1)
"""
ROUNDS = 3  # --long N for more
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes in `tmp_path`/shared, none of which outlives the test."""
    children: list[subprocess.Popen[str]] = []

    def begin(server: Metastore, code: str, number: int, rounds: int = 0) -> subprocess.Popen[str]:
        arguments = [str(tmp_path / "shared"), json.dumps(server.conf), str(number), str(rounds)]
        command = [sys.executable, "-c", SESSION + code, *arguments]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def end(child: subprocess.Popen[str], seconds: float = 180) -> str:
    said = child.communicate(timeout=seconds)[0]
    assert child.returncode == 0, said[-4000:]
    return said


def wait_for(child: subprocess.Popen[str], path: Path) -> None:
    while not path.exists():
        assert child.poll() is None, child.communicate()[0][-4000:]
        time.sleep(0.01)


@pytest.fixture(params=["metastore2", pytest.param("metastore4", marks=pytest.mark.xdist_group("hive4"))])
def server(request: pytest.FixtureRequest) -> Metastore:
    """A metastore of each version."""
    running: Metastore = request.getfixturevalue(request.param)
    return running


def test_two_processes_build_and_drop_one_index_at_once(
    server: Metastore, start: Start, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Every answer is right whatever the other does, and when both have ended nothing half is left."""
    rounds = ROUNDS + pytestconfig.getoption("--long")
    children = [start(server, CREATE + AT_ONCE, 1, rounds)]
    wait_for(children[0], tmp_path / "shared" / "created")
    children.append(start(server, AT_ONCE, 2, rounds))
    said = [end(child, 180 + 60 * rounds) for child in children]
    assert all("'build'" in words and "'drop'" in words for words in said), said
    assert "nothing left" in end(start(server, AFTER, 0), 600)


def test_a_metastore_that_dies_before_the_switch(start: Start, tmp_path: Path) -> None:
    place, port, folder = tmp_path / "metastore", process.free_port(), tmp_path / "shared"
    with metastore2_server.serving(place, port) as server:
        child = start(server, CREATE + LEFT_ALONE, 0)
        wait_for(child, folder / "built")
    (folder / "dead").touch()
    wait_for(child, folder / "failed")
    with metastore2_server.serving(place, port):
        (folder / "back").touch()
        end(child)
