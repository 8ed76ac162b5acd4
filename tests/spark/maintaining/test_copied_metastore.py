"""A metastore that was copied, as staging is from production: what it does leaves the original's indexes alone.

The marker in the root of an index is changed to that of another metastore: then this one is the copy. One test copies a
metastore for real.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.index import generation, markers, refresh_record, roots
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog
from tests import asking
from tests.contract import contract
from tests.spark.maintaining.life import flat_table, live, parted_table, require_right, status, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER = "0" * 32
TABLES = {"flat": flat_table, "parted": parted_table}
ANOTHERS = "left alone, because its marker _index.json names another metastore"


def all_of(root: Path) -> dict[str, tuple[int, bytes]]:
    """The files below a root, each with the time of its change and its content."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def root_of(spark: SparkSession, table: str) -> Path:
    catalog.clear_caches()
    return Path(local_path(status(spark, table).definition.root))


def make_original(root: Path, metastore: str = OTHER) -> dict[str, tuple[int, bytes]]:
    """Let the root be that of another metastore, whose builds have ended; return its files."""
    for path in root.rglob("_*"):
        if path.name in (roots.MARKER, generation.MARKER):
            content = markers.read(f"file:{path.parent}", path.name)
            markers.write(f"file:{path.parent}", path.name, {**(content or {}), "process_start": 1, "started": 1.0})
    content = markers.read(f"file:{root}", roots.MARKER)
    markers.write(f"file:{root}", roots.MARKER, {**(content or {}), "metastore": metastore})
    return all_of(root)


def make_copy(
    spark: SparkSession, tmp_path: Path, kind: str = "flat"
) -> tuple[str, Path, dict[str, tuple[int, bytes]]]:
    """Return a table with an index of another metastore, its root, and the files in that."""
    table = TABLES[kind](spark, tmp_path / "t")
    hive_bitmap.build(spark, table, ["k"])
    root = root_of(spark, table)
    return table, root, make_original(root)


def new_file(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "t" / ("p=1" if kind == "parted" else ""), 1, 7)


@pytest.mark.parametrize("kind", contract(TABLES, "parted"))
def test_a_rebuild_uses_a_root_of_its_own(spark: SparkSession, database: str, tmp_path: Path, kind: str) -> None:
    table, root, before = make_copy(spark, tmp_path, kind)
    assert ANOTHERS in status(spark, table).problem
    asking.require_alike(spark, f"SELECT count(*) FROM {table} WHERE k = 3", "", "index only")
    assert asking.told(spark, f"SELECT k, count(*) FROM {table} GROUP BY k", "index only") == [(table, "answered")]
    new_file(tmp_path, kind)
    [report] = hive_bitmap.rebuild(spark, table, partition={"p": "1"} if kind == "parted" else None)
    assert report.files_read == report.base_files == (9 if kind == "parted" else 3), "all of it is built"
    own = root_of(spark, table)
    assert own.parent == root.parent and own != root and all_of(root) == before
    assert all(folder.startswith(f"file:{own}/") for folder in live(spark, table))
    assert (status(spark, table).problem, status(spark, table).unindexed) == ("", 0)
    require_right(spark, table)
    assert hive_bitmap.rebuild(spark, table)[0].files_read == 0 and root_of(spark, table) == own
    new_file(tmp_path, kind)
    hive_bitmap.rebuild(spark, table)
    reports = hive_bitmap.clean(spark, grace_seconds=0)
    assert all(str(own) in one.path or ("another metastore" in one.kept and not one.due) for one in reports)
    assert any(str(own) in one.path and one.due for one in reports)
    hive_bitmap.drop(spark, table, "k")
    assert not own.exists() and all_of(root) == before


def test_so_does_a_refresh_once_it_finds_a_change(spark: SparkSession, database: str, tmp_path: Path) -> None:
    table, root, before = make_copy(spark, tmp_path, "parted")
    hive_bitmap.refresh(spark, table)
    assert root_of(spark, table) == root and all_of(root) == before
    new_file(tmp_path, "parted")
    hive_bitmap.refresh(spark, table, partitions=[{"p": "1"}])
    assert root_of(spark, table) != root and all_of(root) == before and status(spark, table).unindexed == 0
    require_right(spark, table)


def test_so_does_a_change_of_the_encoding(spark: SparkSession, database: str, tmp_path: Path) -> None:
    table, root, before = make_copy(spark, tmp_path)
    hive_bitmap.set_properties(spark, table, "k", {"encoding": "roaring", "comment": "of the copy"})
    hive_bitmap.rebuild(spark, table)
    found = status(spark, table).definition
    assert (found.encoding, found.comment) == ("roaring", "of the copy")
    assert root_of(spark, table) != root and all_of(root) == before
    require_right(spark, table)


def test_a_rebuild_that_fails_changes_nothing(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, root, before = make_copy(spark, tmp_path)
    new_file(tmp_path, "flat")
    with pytest.raises(ZeroDivisionError):
        hive_bitmap.rebuild(spark, table, progress=lambda done: 1 // 0)
    assert root_of(spark, table) == root and all_of(root) == before
    assert [path.name for path in root.parent.iterdir()] == [root.name]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("by", contract(["drop", "drop table", "clean", "attach"], "drop table"))
def test_what_deletes_touches_nothing_and_says_so(
    spark: SparkSession, database: str, tmp_path: Path, kind: str, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, root, before = make_copy(spark, tmp_path, kind)
    said = ""
    with caplog.at_level(logging.WARNING):
        if by == "drop":
            hive_bitmap.drop(spark, table, "k")
        elif by == "drop table":
            hive_bitmap.drop_table(spark, table)
        elif by == "clean":
            [left] = hive_bitmap.clean(spark, grace_seconds=0)
            said = left.kept
            assert not left.due and "if this metastore was moved, and is not a copy, run clean with --take-over" in said
        else:
            spark.sql(f"ALTER TABLE {table} RENAME TO new")
            hive_bitmap.attach(spark, "new", table)
            require_right(spark, "new")
    assert all_of(root) == before
    assert ANOTHERS in said + caplog.text
    reports = [left for left in hive_bitmap.clean(spark, grace_seconds=0) if left.path == f"file:{root}"]
    assert len(reports) == 1 and "another metastore" in reports[0].kept and all_of(root) == before
    hive_bitmap.clean(spark, location=str(root), grace_seconds=0)
    assert all_of(root) == before, "that the caller names it proves nothing"


def test_verify_of_a_text_table_reads_in_a_folder_of_its_own(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE text (k int) STORED AS TEXTFILE LOCATION '{tmp_path}/t'")
    spark.sql("INSERT INTO text SELECT CAST(id % 9 AS int) FROM range(100)")
    hive_bitmap.build(spark, "text", ["k"])
    root = root_of(spark, "text")
    before = make_original(root)
    changed = root.stat().st_mtime_ns
    assert hive_bitmap.verify(spark, "text")[0].problems == ()
    assert all_of(root) == before and root.stat().st_mtime_ns == changed
    assert [path.name for path in root.parent.iterdir()] == [root.name]


def test_a_record_of_a_refresh_is_not_written_there(spark: SparkSession, database: str, tmp_path: Path) -> None:
    table, root, before = make_copy(spark, tmp_path)
    record = refresh_record.RefreshRecord.of_now(1.0, 2)
    refresh_record.write(status(spark, table).definition, record, metastore_id(spark))
    assert all_of(root) == before


@pytest.mark.parametrize("kind", contract(TABLES, "flat"))
def test_a_metastore_that_was_moved_takes_over(spark: SparkSession, database: str, tmp_path: Path, kind: str) -> None:
    """Also what was dropped in it before, if the caller names the folder."""
    table, root, before = make_copy(spark, tmp_path, kind)
    assert hive_bitmap.clean(spark, take_over=True, dry_run=True) == [] and all_of(root) == before
    assert hive_bitmap.clean(spark, take_over=True) == [] and status(spark, table).problem == ""
    new_file(tmp_path, kind)
    assert hive_bitmap.rebuild(spark, table)[0].files_read == 1 and root_of(spark, table) == root
    make_original(root)
    hive_bitmap.drop(spark, table, "k")
    [left] = [left for left in hive_bitmap.clean(spark, grace_seconds=0) if left.path == f"file:{root}"]
    assert "run clean with --take-over and with it as the location" in left.kept
    hive_bitmap.clean(spark, location=str(root), grace_seconds=0, take_over=True, dry_run=True)
    assert root.exists()
    hive_bitmap.clean(spark, location=str(root), grace_seconds=0, take_over=True)
    assert not root.exists()


def test_a_session_that_does_not_know_its_metastore_takes_nothing_over_and_deletes_nothing(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, table, ["k"])
    root = root_of(spark, table)
    url = spark.sparkContext._jsc.hadoopConfiguration().get("javax.jdo.option.ConnectionURL")  # type: ignore[attr-defined]
    spark.conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:memory:db")
    try:
        assert metastore_id(spark) == ""
        with pytest.raises(Unsupported, match="does not show its metastore's address"):
            hive_bitmap.clean(spark, take_over=True)
        new_file(tmp_path, "flat")
        hive_bitmap.rebuild(spark, table)
        assert root_of(spark, table) == root and len(list(root.glob("generation-*"))) == 2
        assert "cannot tell whether its metastore is the one" in status(spark, table).problem
        require_right(spark, table)
        hive_bitmap.drop(spark, table, "k")
        assert len(list(root.glob("generation-*"))) == 2
    finally:
        spark.conf.unset("javax.jdo.option.ConnectionURL")
    assert url.startswith("jdbc:derby:") and metastore_id(spark)


STEPS = {
    "make": """
spark.sql(f"CREATE TABLE t (a INT, b STRING) USING parquet LOCATION '{folder}/t'")
spark.sql("INSERT INTO t SELECT CAST(id % 97 AS INT), concat('k', id % 53) FROM range(10000)")
spark.sql("CREATE INDEX i ON TABLE t (a) AS 'BITMAP'")
""",
    "rebuild": """
spark.sql("ALTER INDEX i ON t REBUILD")
spark.sql("INSERT INTO t VALUES (3, 'z')")
spark.sql("ALTER INDEX i ON t REBUILD")
hive_bitmap.clean(spark, grace_seconds=0)
assert spark.sql("SELECT count(*) FROM t WHERE a = 3").first()[0] == 105
""",
    "drop": "spark.sql('DROP TABLE t')",
    "query": """
assert hive_bitmap.show(spark, "t")[0].problem == "" and hive_bitmap.verify(spark, "t")[0].problems == ()
assert spark.sql("SELECT count(*) FROM t WHERE a = 3").first()[0] == 105
""",
}
PROGRAM = """
import sys
import hive_bitmap
folder, warehouse = sys.argv[1:]
spark = hive_bitmap.session(warehouse, master="local[1]", conf={"spark.log.level": "ERROR"})
"""


@pytest.mark.servers
def test_a_derby_metastore_that_is_copied(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"

    def run(step: str, warehouse: Path) -> None:
        program = f"{PROGRAM}{STEPS[step]}\nspark.stop()"
        subprocess.run([sys.executable, "-c", program, str(tmp_path), str(warehouse)], check=True, env=os.environ)

    def files() -> dict[str, tuple[int, bytes]]:
        found = {name: of for name, of in all_of(original).items() if ".metastore" not in name}
        return {name: of for name, of in found.items() if name in kept} if kept else found

    kept: dict[str, tuple[int, bytes]] = {}
    run("make", original)
    kept = files()
    assert any("/_index.json" in name for name in kept)
    for step in ("rebuild", "drop"):
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copytree(original / ".metastore", copy / ".metastore")
        run(step, copy)
        assert files() == kept
        run("query", original)
