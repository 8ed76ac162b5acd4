"""Tests of `clean`: it deletes unused generations, keeps what may be needed, and never touches foreign folders."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.core.index import checksums, deletion, generation, generation_names, markers, roots
from hive_bitmap.core.index.definition import Definition, to_properties
from hive_bitmap.core.index.generation import State
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.metastore import alter_table
from hive_bitmap.spark.registry import catalog, locations
from tests.campaigns import damages
from tests.spark.maintaining.life import (
    drop_partitions,
    drop_table,
    external_table,
    flat_table,
    generations,
    index_table,
    live,
    parted_table,
    require_verified,
    status,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITION = Definition(name="i", database="db", table="t", columns=(), root="file:/nowhere")


@pytest.fixture(scope="module")
def dead() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        return child.pid


def mark(folder: str | Path, marker: str = generation.MARKER, **who: object) -> None:
    """Write the marker of a generation; by default it is built by this process, since now."""
    path = Path(local_path(str(folder)), marker)
    said = json.loads(path.read_text()) if path.exists() else {"definition": to_properties(DEFINITION)}
    said.pop("crc32", None)
    now = {"host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}
    path.write_text(json.dumps({**now, **said, **who}))


class TestUsage:
    """Tests of the state of a generation, and of the seconds since it was retired."""

    HOUR = 3600.0

    @pytest.mark.parametrize(
        ("host", "alive", "hours", "complete", "retired", "state", "seconds"),
        [
            ("", True, 0, False, None, State.BUILDING, 0),
            ("", True, 999, False, None, State.BUILDING, 0),
            ("", True, 0, True, None, State.BUILDING, 0),
            ("", True, 25, True, None, State.COMPLETE, 0),
            ("", False, 0, False, None, State.ORPHANED, float("inf")),
            ("", False, 0, True, None, State.COMPLETE, 0),
            ("other", False, 23, False, None, State.BUILDING, 0),
            ("other", False, 25, False, None, State.ORPHANED, float("inf")),
            ("other", False, 25, True, None, State.COMPLETE, 0),
            ("", True, 0, True, 2, State.REPLACED, 2 * HOUR),
            ("other", True, 0, True, 2, State.REPLACED, 2 * HOUR),
        ],
    )
    def test_by_builder_and_age(
        self,
        tmp_path: Path,
        dead: int,
        host: str,
        alive: bool,
        hours: float,
        complete: bool,
        retired: float | None,
        state: State,
        seconds: float,
    ) -> None:
        folder = tmp_path / generation_names.new_name()
        (folder / "_manifest").mkdir(parents=True)
        pid = os.getpid() if alive else dead
        mark(folder, host=host or socket.gethostname(), pid=pid, started=time.time() - hours * self.HOUR)
        if complete:
            (folder / "_manifest" / "shards.parquet").touch()
        if retired is not None:
            (folder / generation.RETIRED).write_text(json.dumps({"retired": time.time() - retired * self.HOUR}))
        found = generation.usage(str(folder))
        assert (found.state, found.unused_seconds) == (state, pytest.approx(seconds, abs=60))

    def test_of_one_killed_before_its_marker_was_written(self, tmp_path: Path) -> None:
        young, old = tmp_path / generation_names.new_name(), tmp_path / "generation-20200101T000000-00000000"
        for folder in (young, old):
            folder.mkdir()
            (folder / generation.MARKER).write_text('{"host": "')
        assert generation.usage(str(young)).state is State.BUILDING
        assert generation.usage(str(old)).state is State.ORPHANED


@pytest.mark.parametrize("is_new", [False, True])
def test_what_another_process_publishes_meanwhile_stays(
    memory: SparkSession, tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """It builds, publishes and ends between the looks at the tables and at the folders."""
    flat = flat_table(memory, tmp_path / "t")
    if not is_new:
        hive_bitmap.build(memory, flat, ["k"])
        write(tmp_path / "t", 1, 2)
    looked = catalog.with_copies
    author = replace(markers.Author.this_process(), pid=dead)

    def meanwhile(*arguments: Any) -> Any:
        with monkeypatch.context() as other:
            other.setattr(markers.Author, "this_process", lambda: author)
            hive_bitmap.build(memory, flat, ["k"]) if is_new else hive_bitmap.rebuild(memory, flat, full=True)
        return looked(*arguments)

    monkeypatch.setattr(catalog, "with_copies", meanwhile)
    found = hive_bitmap.clean(memory, grace_seconds=0)
    monkeypatch.undo()
    assert len(found) == (0 if is_new else 1)
    require_verified(memory, flat)
    found_now = status(memory, flat)
    assert (found_now.fresh, found_now.problem) == (2 if is_new else 3, "")


def test_replaced_generations_go_after_the_grace_period(memory: SparkSession, tmp_path: Path) -> None:
    parted = parted_table(memory, tmp_path / "t", 2)
    hive_bitmap.build(memory, parted, ["k"])
    old = live(memory, parted)
    hive_bitmap.rebuild(memory, parted, full=True)
    drop_partitions(memory, parted, 2)
    hive_bitmap.rebuild(memory, parted)
    kept = live(memory, parted)
    before = generations(memory, "db")
    assert len(before) == 3 and len(kept) == 1
    waiting = hive_bitmap.clean(memory, parted)
    assert sorted(one.path for one in waiting) == sorted(set(before) - set(kept))
    assert not any(one.due for one in waiting) and generations(memory, "db") == before
    shown = hive_bitmap.clean(memory, grace_seconds=0, dry_run=True)
    assert {(one.due, one.bytes > 0, one.why) for one in shown} == {(True, True, "another generation took its place")}
    assert generations(memory, "db") == before
    assert hive_bitmap.clean(memory, parted, grace_seconds=0) == shown
    assert generations(memory, "db") == kept and not Path(local_path(old[0])).exists()
    require_verified(memory, parted)
    assert hive_bitmap.clean(memory, grace_seconds=0) == []


def test_a_generation_with_a_folder_that_may_not_be_read_stays(memory: SparkSession, tmp_path: Path) -> None:
    parted = parted_table(memory, tmp_path / "t", 1)
    hive_bitmap.build(memory, parted, ["k"])
    [old] = live(memory, parted)
    hive_bitmap.rebuild(memory, parted, full=True)
    locked = Path(local_path(old), checksums.FOLDER)
    locked.chmod(0)
    try:
        with damages.bound_by_modes():
            [shown] = hive_bitmap.clean(memory, parted, grace_seconds=0, dry_run=True)
            [told] = hive_bitmap.clean(memory, parted, grace_seconds=0)
    finally:
        locked.chmod(0o700)
    assert shown.path == told.path == old and "Permission denied" in told.kept
    assert [one.kept for one in hive_bitmap.clean(memory, parted, grace_seconds=0)] == [""]
    assert generations(memory, "db") == live(memory, parted)


def test_halves_of_dead_builds_go_and_builds_at_work_stay(memory: SparkSession, tmp_path: Path, dead: int) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    [definition] = [index.definition for index in catalog.table_and_indexes(memory, flat)[1]]
    halves = [f"{definition.root}/{generation_names.new_name()}" for _ in range(3)]
    for folder in halves:
        generation.start(folder, None, definition)
    mark(halves[0], pid=dead)
    mark(halves[1], host="another")
    found = hive_bitmap.clean(memory, flat, grace_seconds=0)
    assert [(one.path, one.why) for one in found] == [(halves[0], "half-built: its build died")]
    assert generations(memory, "db") == sorted([*halves[1:], *live(memory, flat)])
    require_verified(memory, flat)


def test_folders_of_dropped_indexes_go_and_strangers_stay(memory: SparkSession, tmp_path: Path, dead: int) -> None:
    flat, parted = flat_table(memory, tmp_path / "f"), parted_table(memory, tmp_path / "p", 2)
    hive_bitmap.build(memory, flat, ["k", "id"])
    hive_bitmap.build(memory, parted, ["k"])
    home = Path(local_path(locations.default_folder(memory, "db")))
    of_flat, of_parted = live(memory, flat), live(memory, parted)
    mine = [home / "mine" / "generation-20200101T000000-00000000", home / "copy" / Path(of_flat[0]).name]
    mine[0].mkdir(parents=True)
    shutil.copytree(local_path(of_flat[0]), mine[1])  # the marker in the copy names another folder
    for name in (index_table(memory, parted), "db__flat_k__"):
        drop_table(memory, name)
    for folder in of_flat + of_parted:
        mark(folder, pid=dead)
    with pytest.raises(NotFound):
        hive_bitmap.clean(memory, "nope")
    assert [one.due for one in hive_bitmap.clean(memory, parted)] == [False]
    found = hive_bitmap.clean(memory, parted, grace_seconds=0)
    assert sorted(one.path for one in found) == of_parted
    assert {one.why for one in found} == {"index k on db.parted was dropped"}
    assert not Path(local_path(of_parted[0])).parent.exists()
    drop_table(memory, flat)
    assert len(hive_bitmap.clean(memory, grace_seconds=0)) == 1
    assert all(path.exists() for path in mine)
    assert [one.fresh + one.gone for one in hive_bitmap.show(memory, flat)] == [2], "index id is still there"


def test_a_root_whose_marker_was_only_begun_goes(memory: SparkSession, tmp_path: Path) -> None:
    """Its build was killed between the creation of the marker's file and the moment in which it got its name."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    home = Path(local_path(locations.default_folder(memory, "db")))
    begun, other = home / "flat__k-12345678", home / "mine"
    for folder in (begun, other):
        folder.mkdir()
        (folder / f"{roots.MARKER}.0123abcd.begun").write_text('{"id":')
    (other / "notes").touch()
    assert hive_bitmap.clean(memory, flat, grace_seconds=0) == []
    [waiting] = hive_bitmap.clean(memory)
    [shown] = hive_bitmap.clean(memory, grace_seconds=0, dry_run=True)
    assert local_path(waiting.path) == str(begun) and not waiting.due and shown.due and begun.exists()
    assert hive_bitmap.clean(memory, grace_seconds=0) == [shown]
    assert not begun.exists() and len(list(other.iterdir())) == 2
    [named] = hive_bitmap.clean(memory, grace_seconds=0, location=str(other))
    assert local_path(named.path) == str(other) and [path.name for path in other.iterdir()] == ["notes"]


def test_what_a_table_points_at_stays(memory: SparkSession, tmp_path: Path, dead: int) -> None:
    """Also if the properties of the index table are lost, or if another table uses the folder now."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k", "id"])
    for folder in live(memory, flat):
        mark(folder, pid=dead)
    before = generations(memory, "db")
    [first, second] = catalog.table_and_indexes(memory, flat)[1]
    of_second = catalog.segments(memory, second)
    lost = [key for key in first.table.properties if key.startswith("hive_bitmap.")]
    alter_table.set_properties(memory, first.table, {}, lost)
    drop_table(memory, second.definition.sql_name)
    external_table(memory, "taken", Path(local_path(second.definition.root)))
    assert hive_bitmap.clean(memory, grace_seconds=0) == [] and generations(memory, "db") == before
    drop_table(memory, "taken")
    assert [one.path for one in hive_bitmap.clean(memory, grace_seconds=0)] == of_second


def test_the_location_of_an_index_that_others_dropped(memory: SparkSession, tmp_path: Path) -> None:
    """Only the user knows the LOCATION. One that an existing index uses is left alone."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"], location=str(tmp_path / "k"))
    hive_bitmap.build(memory, flat, ["id"], location=str(tmp_path / "id"))
    drop_table(memory, "db__flat_k__")
    for folder in tmp_path.glob("*/generation-*"):
        written = generation.definition_of(f"file:{folder}")
        assert written is not None
        generation.retire(f"file:{folder}", written)
    assert hive_bitmap.clean(memory, flat, grace_seconds=0) == []
    found = hive_bitmap.clean(memory, flat, location=str(tmp_path / "k"), grace_seconds=0)
    assert [one.why for one in found] == ["index k on db.flat was dropped"]
    assert not (tmp_path / "k").exists()
    assert hive_bitmap.clean(memory, location=f"file:{tmp_path}/id", grace_seconds=0) == []
    with pytest.raises(NotFound, match=r"there is no folder .*/k"):
        hive_bitmap.clean(memory, location=str(tmp_path / "k"))
    require_verified(memory, flat)


KILLED = """
import os, signal, sys
from hive_bitmap.core.index import deletion
from hive_bitmap.core.index.definition import Definition
left, unlink = int(sys.argv[2]), os.unlink
def counted(*arguments, **options):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    unlink(*arguments, **options)
os.unlink = counted
root = sys.argv[1].rpartition("/")[0]
deletion.delete([sys.argv[1]], Definition(name="i", database="db", table="t", columns=(), root=root), "m")
"""


@pytest.mark.parametrize("files", range(6))
def test_a_generation_whose_deletion_is_killed_is_still_told_as_one_to_delete(tmp_path: Path, files: int) -> None:
    folder = tmp_path / generation_names.new_name()
    (folder / "_manifest").mkdir(parents=True)
    shards = [f"part-{digit * 32}" for digit in "ab"]
    for name in (*(f"{shard}.parquet" for shard in shards), f"_manifest/{shards[0]}.cardinalities"):
        (folder / name).touch()
    (folder / "_manifest" / "shards.parquet").touch()
    definition = Definition(name="i", database="db", table="t", columns=(), root=f"file:{tmp_path}")
    mark(folder, definition=to_properties(definition))
    generation.retire(f"file:{folder}", definition)
    child = subprocess.run([sys.executable, "-c", KILLED, f"file:{folder}", str(files)], check=False)
    assert child.returncode == -signal.SIGKILL and folder.exists()
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 6 - files
    assert generation.definition_of(f"file:{folder}") is not None
    if files < 5:  # otherwise only the marker of the build is left, and this process might still be building
        assert generation.usage(f"file:{folder}").state is State.REPLACED
    assert deletion.delete([f"file:{folder}"], definition, "m") == []
    assert not folder.exists()


def test_a_generation_that_became_a_link_is_not_marked_through_it(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    folder = root / generation_names.new_name()
    (elsewhere / "_manifest").mkdir(parents=True)
    definition = Definition(name="i", database="db", table="t", columns=(), root=f"file:{root}")
    mark(elsewhere, definition=to_properties(definition))
    before = sorted(elsewhere.rglob("*"))
    folder.symlink_to(elsewhere)
    generation.retire(f"file:{folder}", definition)
    assert sorted(elsewhere.rglob("*")) == before
