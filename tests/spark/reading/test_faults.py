"""Builds that die, full disks, files that change under a build or a query: no wrong answer, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.errors import BuildFailed, Unsupported
from hive_bitmap.spark.registry import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

STRATEGIES = ("rows", "blocks", "files", "full scan")
ROWS = 2000
CHILD = """
import sys
from pathlib import Path
import hive_bitmap

spark = hive_bitmap.session(sys.argv[1], master="local[2]")
said = Path(sys.argv[2])
if not spark.catalog.tableExists("t"):
    spark.sql("CREATE TABLE t (k int, id bigint) USING parquet")
    spark.range(0, 40000, 1, 4).selectExpr("CAST(id % 7 AS int) AS k", "id").write.insertInto("t")
    hive_bitmap.build(spark, "t", ["k"])
expected = [row.id for row in spark.table("t").where("k = 3").orderBy("id").collect()]
for strategy in ("files", None):
    found = hive_bitmap.scan(spark, "t", "k = 3", strategy=strategy).orderBy("id").collect()
    assert [row.id for row in found] == expected
assert hive_bitmap.count(spark, "t", "k = 3") == len(expected)
assert hive_bitmap.count(spark, "t", "k = 3", strategy="index only") == len(expected)
next(Path(sys.argv[1], "t").glob("part-*")).unlink()  # one shard is written anew without it, the others are linked
spark.catalog.refreshTable("t")
spark.range(0, 10000).selectExpr("CAST(id % 7 AS int) AS k", "id").coalesce(1).write.insertInto("t")
said.write_text("right")
sys.stdin.readline()
hive_bitmap.rebuild(spark, "t")
said.write_text("built")
"""


def base(folder: Path, seed: int = 0, files: int = 4, format: str = "parquet") -> list[Path]:
    """Files of k (0 to 6) and id, in blocks of 100 rows."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    paths = []
    for number in range(files):
        paths.append(folder / f"{number}.{format}")
        write(paths[-1], rng)
    return paths


def write(path: Path, rng: np.random.Generator) -> None:
    """A file of random rows in the place of any old one, at once."""
    keys = pa.array(rng.integers(0, 7, ROWS), pa.int32())
    rows = pa.table({"k": keys, "id": pa.array(rng.integers(0, 1 << 40, ROWS))})
    new = path.with_name(f".{path.name}.new")
    if path.suffix == ".orc":
        orc.write_table(rows, new, stripe_size=1, batch_size=64)
    else:
        pq.write_table(rows, new, row_group_size=100)
    os.replace(new, path)


def create(spark: SparkSession, folder: Path, format: str = "parquet") -> None:
    spark.sql(f"CREATE TABLE t (k int, id bigint) USING {format} LOCATION '{folder}'")


def rows(spark: SparkSession, predicate: str) -> list[tuple[int, int]]:
    spark.catalog.refreshTable("t")
    return sorted((row.k, row.id) for row in spark.table("t").where(predicate).collect())


def require_right(spark: SparkSession) -> None:
    """Every strategy answers as Spark does."""
    for predicate in ("k = 3", "k IN (1, 9)"):
        expected = rows(spark, predicate)
        for strategy in STRATEGIES:
            try:
                found = hive_bitmap.scan(spark, "t", predicate, strategy=strategy)
            except Unsupported:
                continue
            assert sorted((row.k, row.id) for row in found.collect()) == expected, strategy
        assert hive_bitmap.count(spark, "t", predicate) == len(expected)


def generations(root: Path) -> list[Path]:
    """Those below `root`; unlike `rglob`, the walk minds no folder of Derby's that is gone meanwhile."""
    return sorted(
        Path(folder, name) for folder, names, _ in os.walk(root) for name in names if name.startswith("generation-")
    )


def live(spark: SparkSession) -> list[str]:
    _, indexes = catalog.table_and_indexes(spark, "t")
    return [folder for index in indexes for folder in catalog.segments(spark, index)]


Stage = Callable[[Path, set[Path]], bool]  # has the rebuild come there? by the warehouse, and the generations before


def first_shard(root: Path, before: set[Path]) -> bool:
    return any(list(new.glob("part-*")) for new in set(generations(root)) - before)


def manifest_begun(root: Path, before: set[Path]) -> bool:
    return any((new / "_manifest").exists() for new in set(generations(root)) - before)


def switched(root: Path, before: set[Path]) -> bool:
    return any((old / "_retired").exists() for old in before)


@pytest.mark.servers
def test_a_killed_build_changes_nothing_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    warehouse, said = tmp_path / "w", tmp_path / "said"
    for stage in (first_shard, manifest_begun, switched):
        run(warehouse, said, stage)
        assert said.read_text() == "right", f"killed at {stage.__name__}"
    before = set(generations(warehouse))
    run(warehouse, said, None)
    kept = generations(warehouse)
    marked = [path for path in kept if (path / "_built_by").exists()]  # `clean` deletes those that were only begun
    unfinished = [path for path in marked if not (path / "_manifest" / "shards.parquet").exists()]
    assert not unfinished
    assert 1 <= len(set(kept) - before) <= 2  # the new file, and the segment of the deleted file unless that is empty


def run(warehouse: Path, said: Path, stage: Stage | None) -> None:
    """Run the child with its Java: it asks, then rebuilds; kill both as soon as the rebuild has come to `stage`."""
    said.write_text("")
    with open(said.with_name("log"), "w") as log:
        command = [sys.executable, "-c", CHILD, str(warehouse), str(said)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
        while said.read_text() != "right" and child.poll() is None:
            time.sleep(0.01)
        before = set(generations(warehouse))
        assert child.stdin is not None
        child.stdin.close()  # for which it waits
        while stage is not None and child.poll() is None:
            if stage(warehouse, before):
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                for lock in (warehouse / ".metastore" / "derby").glob("*.lck"):
                    lock.unlink()
                return
            time.sleep(0.0005)
        assert child.wait() == 0, said.with_name("log").read_text()[-3000:]
        assert stage is None, "the build ended before it could be killed"
        assert said.read_text() == "built"


@pytest.fixture
def full_disk(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Makes tasks fail as on a full disk: no file may grow beyond 1000 bytes, until the test ends."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def limit(size: int) -> None:
        def body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            time.sleep(0.1)
            yield from batches

        spark.range(0, 8, 1, 8).mapInArrow(body, "id bigint").collect()

    yield lambda: limit(1000)
    limit(hard)


def test_a_full_disk_fails_the_build_and_leaves_nothing(
    spark: SparkSession, database: str, tmp_path: Path, full_disk: Callable[[], None]
) -> None:
    files = base(tmp_path / "t")
    create(spark, tmp_path / "t")
    hive_bitmap.build(spark, "t", ["k"], location=str(tmp_path / "i"))
    published, before = live(spark), generations(tmp_path / "i")
    write(files[0], np.random.default_rng(5))
    full_disk()
    with pytest.raises(BuildFailed, match=r"published index is untouched.*File too large"):
        hive_bitmap.rebuild(spark, "t")
    full_disk()  # the task that failed took its process with it
    with pytest.raises(BuildFailed):
        hive_bitmap.build(spark, "t", ["id"], location=str(tmp_path / "j"))
    assert (live(spark), generations(tmp_path / "i"), generations(tmp_path / "j")) == (published, before, [])
    require_right(spark)


def test_killed_python_workers_fail_the_build_and_leave_nothing(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    files = base(tmp_path / "t")
    create(spark, tmp_path / "t")
    hive_bitmap.build(spark, "t", ["k"], location=str(tmp_path / "i"))
    published, before = live(spark), generations(tmp_path / "i")
    write(files[0], np.random.default_rng(6))
    stop = threading.Event()

    def kill() -> None:
        while not stop.is_set():
            for pid in python_workers(spark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(BuildFailed, match="published index is untouched"):
            hive_bitmap.rebuild(spark, "t")
    finally:
        stop.set()
        thread.join()
    assert (live(spark), generations(tmp_path / "i")) == (published, before)
    require_right(spark)
    hive_bitmap.rebuild(spark, "t")
    assert [index.stale for index in hive_bitmap.show(spark, "t")] == [0]
    require_right(spark)


def python_workers(spark: SparkSession) -> list[int]:
    """The processes that run the Python tasks of this Spark, without the daemons that fork them.

    After a daemon has died, Spark fails a task for each idle worker that it left behind (PythonWorkerFactory.stopWorker
    writes to the daemon), even if that is a task of another test.
    """
    told = subprocess.run(["ps", "-Ao", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    processes = [line.split(None, 2) for line in told.splitlines()]
    java = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    daemons = {pid for pid, parent, args in processes if int(parent) == java and "pyspark.daemon" in args}
    return [int(pid) for pid, parent, _ in processes if parent in daemons]


def test_a_folder_that_vanishes_under_a_build_fails_it(spark: SparkSession, database: str, tmp_path: Path) -> None:
    import shutil

    base(tmp_path / "t")
    create(spark, tmp_path / "t")
    stop = threading.Event()

    def remove() -> None:
        while not stop.is_set():
            for folder in (tmp_path / "i").glob("generation-*"):
                shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.002)

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        with pytest.raises(BuildFailed):
            hive_bitmap.build(spark, "t", ["k"], location=str(tmp_path / "i"))
    finally:
        stop.set()
        thread.join()
    assert hive_bitmap.show(spark, "t") == []
    hive_bitmap.build(spark, "t", ["k"], location=str(tmp_path / "i"))
    require_right(spark)


def test_a_location_that_is_no_folder_is_refused(spark: SparkSession, database: str, tmp_path: Path) -> None:
    base(tmp_path / "t")
    create(spark, tmp_path / "t")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BuildFailed):
        hive_bitmap.build(spark, "t", ["k"], location=str(tmp_path / "file" / "i"))
    assert hive_bitmap.show(spark, "t") == [] and (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(("format", "strategy"), [("parquet", "rows"), ("parquet", "files"), ("orc", "blocks")])
def test_files_that_change_before_the_action(
    spark: SparkSession, database: str, tmp_path: Path, format: str, strategy: str
) -> None:
    """A scan sees the rows of some moment between its planning and its end, or stops with FileChanged."""
    files = base(tmp_path / "t", format=format)
    create(spark, tmp_path / "t", format)
    hive_bitmap.build(spark, "t", ["k"])
    rng = np.random.default_rng(7)

    def other_rows() -> None:
        write(files[0], rng)

    def same_looks() -> None:
        before = files[1].stat()
        write(files[1], rng)
        os.utime(files[1], ns=(before.st_atime_ns, before.st_mtime_ns))

    def no_key() -> None:
        pq_or_orc = {"k": pa.array([9] * 50, pa.int32()), "id": pa.array(range(50))}
        new = tmp_path / "new"
        (orc.write_table if format == "orc" else pq.write_table)(pa.table(pq_or_orc), new)
        os.replace(new, files[2])

    for change in (other_rows, same_looks, no_key, files[3].unlink):
        planned = {p: hive_bitmap.scan(spark, "t", p, strategy=strategy) for p in ("k = 3", "k = 9")}
        change()
        for predicate, frame in planned.items():
            after = rows(spark, predicate)
            try:
                found = sorted((row.k, row.id) for row in frame.collect())
            except Exception as e:  # noqa: BLE001 - PythonException and SparkException have no other parent
                assert "FileChanged" in str(e) or "FILE_NOT_EXIST" in str(e), e
            else:
                assert found == after, f"{change} {predicate}"
        if change is not files[3].unlink:
            hive_bitmap.rebuild(spark, "t")
    require_right(spark)


def test_files_that_change_under_a_build(spark: SparkSession, database: str, tmp_path: Path) -> None:
    files = base(tmp_path / "t", files=8)
    create(spark, tmp_path / "t")
    stop, rng = threading.Event(), np.random.default_rng(3)

    def churn() -> None:
        while not stop.is_set():
            path = files[int(rng.integers(len(files)))]
            if rng.random() < 0.2:
                path.unlink(missing_ok=True)
            else:
                write(path, rng)
            time.sleep(0.01)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        hive_bitmap.build(spark, "t", ["k", "id"])
        hive_bitmap.rebuild(spark, "t")
    finally:
        stop.set()
        thread.join()
    require_right(spark)


def test_two_builds_at_once(spark: SparkSession, database: str, tmp_path: Path) -> None:
    files = base(tmp_path / "t")
    create(spark, tmp_path / "t")
    hive_bitmap.build(spark, "t", ["k"])
    failed: list[BaseException] = []

    def again() -> None:
        try:
            hive_bitmap.rebuild(spark, f"{database}.t")
        except BaseException as e:  # noqa: BLE001 - told to the test's own thread
            failed.append(e)

    threads = [threading.Thread(target=again) for _ in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
        write(files[0], np.random.default_rng(int(time.time_ns() % 1000)))
    for thread in threads:
        thread.join()
    assert not failed
    require_right(spark)
    hive_bitmap.rebuild(spark, "t")
    assert hive_bitmap.show(spark, "t")[0].fresh == len(files)
    require_right(spark)
