"""What is not ours stays: links, files of others, folders of other indexes and of other metastores, damaged markers."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.index import deletion, generation, generation_names, markers, roots
from hive_bitmap.core.index.definition import PREFIX, VERSION, Definition, from_properties, to_properties
from hive_bitmap.core.index.generation import State
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import AlreadyExists, InvalidProperty, Unsupported
from hive_bitmap.spark.building import progress
from hive_bitmap.spark.building.publish import index_table
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.metastore.identity import metastore_id
from hive_bitmap.spark.registry import catalog, locations
from hive_bitmap.spark.registry.catalog import Index
from tests.forging import give
from tests.spark.maintaining.life import (
    external_table,
    flat_table,
    generations,
    live,
    parted_table,
    require_verified,
    write,
)
from tests.spark.metastore.memory import MemoryMetastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = "generation-20250101T000000-deadbeef"


@pytest.fixture(scope="module")
def dead() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        return child.pid


def built_by(folder: str | Path, pid: int) -> None:
    """Write into the marker of a generation or root that another process has built it."""
    for name in (generation.MARKER, roots.MARKER):
        content = markers.read(f"file:{local_path(str(folder))}", name)
        if content is not None:
            markers.write(f"file:{local_path(str(folder))}", name, {**content, "pid": pid})


def only(spark: SparkSession, table: str, name: str = "k") -> Index:
    return catalog.named(*catalog.table_and_indexes(spark, table), name)


def root_of(spark: SparkSession, table: str, name: str = "k") -> Path:
    return Path(local_path(only(spark, table, name).definition.root))


def content(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def precious(folder: Path, like: Path | None = None) -> list[str]:
    """Make a folder with files that must not go, also with those of a generation; return what is in it."""
    if like is not None:
        shutil.copytree(like, folder)
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    (folder / "payroll.parquet").write_text("precious")
    (folder / "sub" / "more").write_text("precious")
    return content(folder)


class TestLinks:
    """Nothing behind a link is deleted, wherever in a root the link is, and whatever it leads to."""

    def test_in_place_of_a_generation(
        self, memory: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        flat = flat_table(memory, tmp_path / "t")
        hive_bitmap.build(memory, flat, ["k"])
        root, [published] = root_of(memory, flat), live(memory, flat)
        before = precious(tmp_path / "victim", Path(local_path(published)))
        (root / OLD).symlink_to(tmp_path / "victim")
        write(tmp_path / "t", 1, 2)
        hive_bitmap.rebuild(memory, flat)
        [said] = [one for one in hive_bitmap.clean(memory, flat, grace_seconds=0) if one.kept]
        assert said.path == f"file:{root}/{OLD}" and said.kept.endswith("is left alone, because it is a link")
        with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
            hive_bitmap.drop(memory, flat, "k")
        assert content(tmp_path / "victim") == before and os.path.islink(root / OLD)
        assert "stays, because it holds files that no build of this index has" in caplog.text and OLD in caplog.text

    @pytest.mark.parametrize("name", ["_manifest", "_staging", "shard", generation.RETIRED])
    def test_inside_a_generation(self, tmp_path: Path, name: str) -> None:
        definition = Definition(name="i", database="db", table="t", columns=(), root=f"file:{tmp_path}/root", id="1")
        folder = f"{definition.root}/{generation_names.new_name()}"
        generation.start(folder, None, definition)
        shard = f"part-{generation_names.build_token(folder)}{'0' * 24}"
        victim = tmp_path / "victim"
        precious(victim)
        for named in (f"{shard}.parquet", f"{shard}.cardinalities", "shards.parquet", "staged.parquet"):
            (victim / named).write_text("precious")
        before, inside = content(victim), Path(local_path(folder))
        if name == "shard":
            (inside / f"{shard}.parquet").symlink_to(victim / f"{shard}.parquet")
        else:
            if name == "_manifest":
                (inside / name).rmdir()
            (inside / name).symlink_to(victim)
        remains = deletion.delete([folder], definition, "m")
        assert content(victim) == before and (victim / "payroll.parquet").read_text() == "precious"
        assert bool(remains) == (name != "shard") == inside.exists()
        assert all(f"{name}; delete your files" in left.why for left in remains)

    def test_in_place_of_a_partition_and_of_the_root(self, memory: SparkSession, tmp_path: Path) -> None:
        parted = parted_table(memory, tmp_path / "t", 2)
        hive_bitmap.build(memory, parted, ["k"], location=str(tmp_path / "root"))
        victim, [segment] = tmp_path / "victim", live(memory, parted)
        shutil.copytree(local_path(segment), victim / Path(segment).name)
        before = precious(victim)
        (tmp_path / "root" / "p=1").symlink_to(victim)  # where former versions had the folder of a partition
        hive_bitmap.clean(memory, parted, grace_seconds=0)
        hive_bitmap.drop(memory, parted, "k")
        assert content(victim) == before
        flat = flat_table(memory, tmp_path / "f")
        hive_bitmap.build(memory, flat, ["k", "id"])
        first, second = root_of(memory, flat, "k"), root_of(memory, flat, "id")
        first.rename(tmp_path / "away")
        first.symlink_to(second)
        before = content(second)
        hive_bitmap.drop(memory, flat, "k")
        assert content(second) == before, "the root is now that of another index"
        require_verified(memory, flat)

    def test_a_marker_that_is_written_replaces_a_link(self, tmp_path: Path) -> None:
        folder = tmp_path / OLD
        folder.mkdir()
        for name, make in ((generation.RETIRED, os.symlink), (generation.MARKER, os.link)):
            (tmp_path / f"of {name}").write_text("precious")
            make(tmp_path / f"of {name}", folder / name)
            markers.write(f"file:{folder}", name, {"retired": 1.0})
            assert (tmp_path / f"of {name}").read_text() == "precious"
            assert markers.read(f"file:{folder}", name) == {"retired": 1.0}


def test_files_of_others_in_a_generation_stay_and_are_told(
    memory: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that are named like ours, but not by a build of this generation."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"], location=str(tmp_path / "root"))
    folder = Path(local_path(live(memory, flat)[0]))
    others = {"000000_0", f"part-{'0' * 32}.parquet", "_manifest/note", "sub/part"}
    for name in others:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("precious")
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        hive_bitmap.drop(memory, flat, "k")
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert kept == others | {generation.MARKER}
    assert "000000_0" in caplog.text and "delete your files in it by hand" in caplog.text
    for name in others:
        (folder / name).unlink()
    (folder / "sub").rmdir()
    [written] = [one for one in [generation.definition_of(f"file:{folder}")] if one]
    generation.retire(f"file:{folder}", written)
    assert [one.due for one in hive_bitmap.clean(memory, location=str(tmp_path / "root"), grace_seconds=0)] == [True]
    assert not (tmp_path / "root").exists()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "not UTF-8": lambda path: path.write_bytes(b'{"host": "\xff"}'),
    "no object": lambda path: path.write_text("[]"),
    "deep": lambda path: path.write_text("[" * 100_000),
    "no process": lambda path: path.write_text(json.dumps({"host": os.uname().nodename})),
    "no number": lambda path: path.write_text('{"host": "h", "pid": "x", "started": "y"}'),
    "NaN": lambda path: path.write_text('{"host": "h", "pid": 1, "started": NaN, "id": 1, "definition": {"a": 1}}'),
    "late": lambda path: path.write_text('{"host": "h", "pid": 1, "started": 1' + 400 * "0" + "}"),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "flipped": lambda path: path.write_bytes(path.read_bytes().replace(b'"pid": ', b'"pid": 1')),
    "empty": lambda path: path.write_bytes(b""),
    "folder": lambda path: (path.unlink(), path.mkdir(), (path / "x").touch()),
    "link": lambda path: (path.rename(path.parent / "elsewhere"), path.symlink_to(path.parent / "elsewhere")),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("harm", DAMAGES)
def test_a_marker_that_cannot_be_read_is_a_state_with_a_sentence(tmp_path: Path, harm: str) -> None:
    definition = Definition(name="i", database="db", table="t", columns=(), root=f"file:{tmp_path}", id="1")
    folder = f"file:{tmp_path}/{OLD}"
    generation.start(folder, None, definition)
    (tmp_path / OLD / f"part-deadbeef{'0' * 24}.parquet").write_text("precious")
    DAMAGES[harm](tmp_path / OLD / generation.MARKER)
    before = content(tmp_path / OLD)
    found = generation.usage(folder)
    assert found.state is State.UNKNOWN and "marker _built_by" in found.problem
    assert generation.superseded([folder], (), definition) == [] and generation.definition_of(folder) is None
    [left] = deletion.delete([folder], definition, "m")
    assert "left alone" in left.why and content(tmp_path / OLD) == before


@pytest.mark.parametrize("harm", DAMAGES)
def test_with_damaged_markers_an_index_is_rebuilt_shown_cleaned_and_dropped(
    memory: SparkSession, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    """That of an old generation, then that of the root."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    root = root_of(memory, flat)
    generation.start(f"file:{root}/{OLD}", None, only(memory, flat).definition)
    (root / OLD / "000000_0").write_text("precious")
    DAMAGES[harm](root / OLD / generation.MARKER)
    write(tmp_path / "t", 1, 2)
    hive_bitmap.rebuild(memory, flat)
    [said] = [one for one in hive_bitmap.clean(memory, flat, grace_seconds=0) if one.kept]
    assert said.path == f"file:{root}/{OLD}" and "marker _built_by" in said.kept and not said.due
    DAMAGES[harm](root / roots.MARKER)
    [shown] = hive_bitmap.show(memory, flat)
    assert shown.unindexed == 0 and "marker _index.json" in shown.problem
    write(tmp_path / "t", 1, 3)
    hive_bitmap.rebuild(memory, flat)
    require_verified(memory, flat)
    [said] = hive_bitmap.clean(memory, flat, grace_seconds=0)
    assert said.path == f"file:{root}" and "marker _index.json" in said.kept
    before = content(root)
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        hive_bitmap.drop(memory, flat, "k")
    assert content(root) == before and hive_bitmap.show(memory, flat) == []
    assert "index k is dropped, but folder" in caplog.text


def test_a_damaged_root_marker_that_is_deleted_is_written_anew(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    marker = root_of(memory, flat) / roots.MARKER
    whole = roots.owner(f"file:{marker.parent}")
    marker.write_text("{")
    [shown] = hive_bitmap.show(memory, flat)
    assert "delete the marker, and the next rebuild writes it again" in shown.problem
    marker.unlink()
    write(tmp_path / "t", 1, 2)
    hive_bitmap.rebuild(memory, flat)
    found = roots.owner(f"file:{marker.parent}")
    assert whole is not None and found is not None and found.id == whole.id
    hive_bitmap.drop(memory, flat, "k")
    assert not marker.parent.exists()


def test_a_build_that_was_killed_as_it_began_goes(tmp_path: Path) -> None:
    """With no marker, or half of one, and nothing else."""
    definition = Definition(name="i", database="db", table="t", columns=(), root=f"file:{tmp_path}", id="1")
    names = [generation.MARKER, f"{generation.MARKER}.00000000.begun"]
    folders = [tmp_path / f"{OLD[:-1]}{number}" for number in range(3)]
    for folder, name in zip(folders, [None, *names], strict=True):
        folder.mkdir()
        if name:
            (folder / name).write_text('{"host"')
    paths = [f"file:{folder}" for folder in folders]
    assert generation.superseded(paths, (), definition) == paths
    assert deletion.delete(paths, definition, "m") == [] and content(tmp_path) == []
    young = f"file:{tmp_path}/{generation_names.new_name()}"
    os.mkdir(local_path(young))
    assert generation.usage(young).state is State.BUILDING


def test_an_index_table_with_the_root_of_another_index(
    memory: SparkSession, tmp_path: Path, dead: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its properties are forged: with no id, with an id of its own, and with that of the other index."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    _, [own] = catalog.table_and_indexes(memory, flat)
    [published] = live(memory, flat)
    built_by(published, dead)
    before = content(root_of(memory, flat))
    for number, forged_id in enumerate(["", "0" * 32, own.definition.id]):
        table = f"db__flat_aaa{number}__"
        forged = replace(own.definition, name=f"aaa{number}", index_table=table, id=forged_id)
        made = index_table(forged)
        alter_table.create(memory, made)
        alter_table.change(memory, made, added={("0",): f"{own.definition.root}/{OLD}"})
        with pytest.raises(Unsupported, match="is left alone, because"):
            hive_bitmap.rebuild(memory, flat, [forged.name])
        reports = hive_bitmap.clean(memory, flat, grace_seconds=0)
        assert reports and not any(one.due for one in reports)
        with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
            hive_bitmap.drop(memory, flat, forged.name)
        assert f"index {forged.name} is dropped, but folder" in caplog.text
        shutil.rmtree(root_of(memory, flat) / OLD, ignore_errors=True)  # the metastore has made it
        assert content(root_of(memory, flat)) == before
    assert hive_bitmap.show(memory, flat)[0].fresh == 2
    require_verified(memory, flat)


class TestLocation:
    """LOCATION is neither, in whatever spelling, the place of another index nor that of a table of any database."""

    @pytest.fixture
    def other(self, in_memory: MemoryMetastore, memory: SparkSession, tmp_path: Path) -> str:
        """Another database with a table of two partitions, one in a folder of its own, and an index."""
        name = "db_b"
        in_memory.create_database(name)
        memory.catalog.setCurrentDatabase(name)
        parted = parted_table(memory, tmp_path / "b", 1)
        hive_bitmap.build(memory, parted, ["k"], location=str(tmp_path / "shared"))
        memory.catalog.setCurrentDatabase("db")
        return f"{name}.{parted}"

    def test_is_refused(self, memory: SparkSession, tmp_path: Path, other: str) -> None:
        flat = flat_table(memory, tmp_path / "t")
        parted = parted_table(memory, tmp_path / "p", 1)
        write(tmp_path / "elsewhere")
        base = metastore.describe(memory, parted)
        alter_table.change(memory, base, added={("7",): f"file:{tmp_path}/elsewhere"})
        (tmp_path / "link").symlink_to(tmp_path)
        taken = [
            f"{tmp_path}/shared",
            f"file:{tmp_path}/shared/",
            f"file://{tmp_path}//shared",
            f"FILE://localhost{tmp_path}/x/../shared",
            f"{tmp_path}/./shared",
            f"{tmp_path}/link/shared",
            f"{tmp_path}/shared/inside",
        ]
        for location in taken:
            with pytest.raises(AlreadyExists, match=r"belongs to index k on .*_b\.parted"):
                hive_bitmap.build(memory, flat, ["k"], location=location)
        (tmp_path / "shared" / roots.MARKER).unlink()  # as if made by an early version
        for location in (*taken, str(tmp_path), "/"):
            with pytest.raises((AlreadyExists, InvalidProperty), match="give another"):
                hive_bitmap.build(memory, flat, ["k"], location=location)
        for location in (f"{tmp_path}/b", f"{tmp_path}/b/p=1", f"{tmp_path}/link/b/new", f"{tmp_path}/t"):
            with pytest.raises(InvalidProperty, match="is in the folder of table"):
                hive_bitmap.build(memory, flat, ["k"], location=location)
        with pytest.raises(InvalidProperty, match="is in the folder of a partition of table"):
            hive_bitmap.build(memory, parted, ["k"], location=f"{tmp_path}/elsewhere/x")
        with pytest.raises(InvalidProperty, match="the folder of database"):
            hive_bitmap.build(memory, flat, ["k"], location=locations.default_folder(memory, "db"))
        assert hive_bitmap.show(memory, flat) == [] and hive_bitmap.show(memory, other)[0].problem == ""

    def test_of_early_indexes_that_share_it(self, memory: SparkSession, tmp_path: Path, other: str, dead: int) -> None:
        """Neither has an id or a marker in the root: the markers of the generations tell them apart."""
        flat = flat_table(memory, tmp_path / "t")
        hive_bitmap.build(memory, flat, ["k"])
        for table in (flat, other):
            _make_early(memory, only(memory, table), f"file:{tmp_path}/shared")
        for folder in (tmp_path / "shared").rglob("generation-*"):
            built_by(folder, dead)
        theirs = live(memory, other)
        write(tmp_path / "t", 1, 2)
        hive_bitmap.rebuild(memory, flat)
        assert only(memory, flat).definition.id and not generation.definition_of(theirs[0]).id  # type: ignore[union-attr]
        hive_bitmap.clean(memory, flat, grace_seconds=0)
        hive_bitmap.drop(memory, flat, "k")
        assert live(memory, other) == theirs and hive_bitmap.show(memory, other)[0].fresh == 2
        with pytest.raises(Unsupported, match=r"left alone, because its marker .*: drop index k, and create it again"):
            hive_bitmap.rebuild(memory, other)
        require_verified(memory, other)


def _make_early(spark: SparkSession, index: Index, root: str) -> None:
    """Turn an index into one of an early version, which has no id, and whose root has no marker."""
    before, early = index.definition, replace(index.definition, id="", root=root)
    os.makedirs(local_path(root), exist_ok=True)
    (Path(local_path(before.root)) / roots.MARKER).unlink(missing_ok=True)
    folders = {(str(number),): folder for number, folder in catalog.slots_of(spark, index.table).items()}
    moved = {values: folder.replace(before.root, root) for values, folder in folders.items()}
    for values, folder in folders.items():
        if not generation_names.is_generation(folder):
            continue
        os.makedirs(os.path.dirname(local_path(moved[values])), exist_ok=True)
        os.rename(local_path(folder), local_path(moved[values]))
        content = dict(markers.read(moved[values], generation.MARKER) or {}, definition=to_properties(early))
        del content["linked"]
        Path(local_path(moved[values]), generation.MARKER).write_text(json.dumps(content))
    alter_table.set_properties(spark, index.table, to_properties(early))
    alter_table.set_properties(spark, index.table, {}, ["hive_bitmap.id"])
    alter_table.change(spark, index.table, moved=moved)
    catalog.clear_caches()


def test_an_early_index_gets_an_id_and_a_marker_with_its_next_rebuild(
    memory: SparkSession, tmp_path: Path, dead: int
) -> None:
    """Until then it is shown, queried and dropped as ever, and nothing is built anew for it."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"], location=str(tmp_path / "root"))
    hive_bitmap.build(memory, flat, ["id"], location=str(tmp_path / "other"))
    _make_early(memory, only(memory, flat), f"file:{tmp_path}/root")
    _make_early(memory, only(memory, flat, "id"), f"file:{tmp_path}/other")
    before = live(memory, flat)
    require_verified(memory, flat)
    [report] = hive_bitmap.rebuild(memory, flat, ["k"])
    assert report.files_read == 0 and live(memory, flat) == before
    known = roots.owner(f"file:{tmp_path}/root")
    assert known is not None and known.id == only(memory, flat).definition.id != ""
    hive_bitmap.drop(memory, flat, "k")
    hive_bitmap.drop(memory, flat, "id")
    assert not (tmp_path / "root").exists()
    assert not generation.all_below(f"file:{tmp_path}/other")
    assert (tmp_path / "other").exists(), "nothing says that a build has made this folder"


def test_the_dropped_indexes_of_another_metastore_stay(memory: SparkSession, tmp_path: Path, dead: int) -> None:
    """Two metastores have one warehouse folder, and each a database of this name; early versions did not say."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k", "id"])
    hive_bitmap.build(memory, flat, [["k", "id"]])
    found = {index.definition.name: index for index in catalog.table_and_indexes(memory, flat)[1]}
    theirs, early, ours = (Path(local_path(found[name].definition.root)) for name in ("k", "id", "k_id"))
    said = markers.read(f"file:{theirs}", roots.MARKER)
    markers.write(f"file:{theirs}", roots.MARKER, {**(said or {}), "metastore": "0" * 32})
    (early / roots.MARKER).unlink()
    for name, root in (("k", theirs), ("id", early), ("k_id", ours)):
        alter_table.drop(memory, found[name].table)
        for folder in [root, *root.glob("generation-*")]:
            built_by(folder, dead)
    before = content(theirs), content(early)
    reports = hive_bitmap.clean(memory, grace_seconds=0)
    assert {one.path for one in reports if one.kept} == {f"file:{theirs}", f"file:{early}"}
    assert all("as the location" in one.kept for one in reports if one.kept)
    assert (content(theirs), content(early)) == before and not ours.exists()
    hive_bitmap.clean(memory, location=str(theirs), grace_seconds=0)
    assert content(theirs) == before[0], "it is of another metastore, whoever names it"
    for root in (theirs, early):
        reports = hive_bitmap.clean(memory, location=str(root), grace_seconds=0, take_over=root == theirs)
        assert [one.path for one in reports if one.due and str(root) in one.path]
    assert not theirs.exists() and content(early) == ["empty", "empty/_empty"]
    assert [one.kept for one in reports if one.path == f"file:{early}"] == [
        f"folder file:{early} stays, because it has no marker {roots.MARKER}; {roots.BY_HAND}"
    ]


def test_a_root_without_generations_goes_once_its_creator_is_gone(
    memory: SparkSession, tmp_path: Path, dead: int
) -> None:
    home = locations.default_folder(memory, "db")
    definition = Definition(name="i", database="db", table="t", columns=(), root=f"{home}/half", id=roots.new_id())
    roots.claim(definition, metastore_id(memory))
    assert hive_bitmap.clean(memory, grace_seconds=0) == []
    built_by(definition.root, dead)
    assert [one.path for one in hive_bitmap.clean(memory, grace_seconds=0, dry_run=True)] == [definition.root]
    assert [one.path for one in hive_bitmap.clean(memory, grace_seconds=0)] == [definition.root]
    assert not os.path.exists(local_path(definition.root))


@pytest.mark.parametrize(
    "seconds", [pytest.param(0.0, marks=pytest.mark.contract), 60.0]
)  # the callback raises meanwhile, or at the end
def test_a_build_that_fails_leaves_no_root(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(progress, "SECONDS", seconds)
    flat = flat_table(spark, tmp_path / "t")
    with pytest.raises(ZeroDivisionError):
        hive_bitmap.build(spark, flat, ["k"], location=str(tmp_path / "root"), progress=lambda done: 1 // 0)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("name", ["generation-99999999T999999-deadbeef", "generation-20260230T000000-deadbeef"])
def test_a_folder_of_no_date_is_no_generation(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert not generation_names.is_generation(f"file:{tmp_path}/{name}")
    assert generation.all_below(f"file:{tmp_path}") == []


@pytest.mark.parametrize("columns", ['[[1, "int"]]', "[" * 1200, "[1]", '{"a": 1}', "null"], ids=range(5))
def test_forged_columns_are_no_definition(columns: str) -> None:
    known = {
        "version": VERSION,
        "type": "BITMAP",
        "table": "d.t",
        "index": "i",
        "columns": columns,
        "encoding": "gap",
    }
    assert from_properties({f"{PREFIX}{key}": value for key, value in (known | {"root": "file:/r"}).items()}) is None


class TestCopies:
    """The table of an index is copied, with all properties, and stands elsewhere."""

    def copy(self, spark: SparkSession, table: str, elsewhere: Path) -> str:
        base, [own] = catalog.table_and_indexes(spark, table)
        name = f"{base.database}__{base.name}_a__"
        made = index_table(replace(own.definition, index_table=name))
        alter_table.create(spark, replace(made, location=f"file:{elsewhere}"))
        catalog.clear_caches()
        return name

    def test_of_somebody_else_neither_loses_nor_keeps_generations(
        self, memory: SparkSession, tmp_path: Path, dead: int
    ) -> None:
        for table in (flat_table(memory, tmp_path / "t"), parted_table(memory, tmp_path / "p", 2)):
            hive_bitmap.build(memory, table, ["k"])
            give(memory, self.copy(memory, table, tmp_path / f"elsewhere of {table}"), "mallory")
            before = live(memory, table)
            for folder in before:
                built_by(folder, dead)
            reports = hive_bitmap.clean(memory, table, grace_seconds=0)
            assert not [one for one in reports if one.due] and generations(memory, "db")[-len(before) :] == before
            require_verified(memory, table)
            hive_bitmap.rebuild(memory, table, full=True)
            reports = hive_bitmap.clean(memory, table, grace_seconds=0)
            assert sorted(one.path for one in reports if one.due) == before
            assert not any(os.path.exists(local_path(folder)) for folder in before)
            require_verified(memory, table)
            hive_bitmap.drop_table(memory, table)

    def test_for_a_table_of_somebody_else_is_not_this_index(
        self, memory: SparkSession, tmp_path: Path, dead: int
    ) -> None:
        """Of his own table, his index is believed; it says that it has the id and the root of another."""
        flat = flat_table(memory, tmp_path / "t")
        hive_bitmap.build(memory, flat, ["k"])
        before = live(memory, flat)
        built_by(before[0], dead)
        external_table(memory, "m", tmp_path / "m")
        name = "db__m_k__"
        copy = replace(only(memory, flat).definition, table="m", index_table=name)
        alter_table.create(memory, replace(index_table(copy), location=f"file:{tmp_path}/elsewhere"))
        for table in ("m", name):
            give(memory, table, "mallory")
        with pytest.raises(Unsupported, match="left alone, because its marker"):
            hive_bitmap.rebuild(memory, "m")
        hive_bitmap.rebuild(memory, flat, full=True)
        reports = hive_bitmap.clean(memory, grace_seconds=0)
        assert [one.path for one in reports if one.due] == before
        hive_bitmap.drop_table(memory, "m")
        require_verified(memory, flat)

    def test_of_the_owner_is_told_and_nothing_is_deleted(
        self, memory: SparkSession, tmp_path: Path, dead: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its name comes first: DROP INDEX drops it, and leaves the files to the other table."""
        flat = flat_table(memory, tmp_path / "t")
        hive_bitmap.build(memory, flat, ["k"])
        [published] = live(memory, flat)
        built_by(published, dead)
        self.copy(memory, flat, tmp_path / "elsewhere")
        before = content(Path(local_path(published)))
        assert all("claim it" in one.kept for one in hive_bitmap.clean(memory, grace_seconds=0))
        with pytest.raises(Unsupported, match="claim it"):
            hive_bitmap.rebuild(memory, flat)
        with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
            hive_bitmap.drop(memory, flat, "k")
        assert "index k is dropped, but folder" in caplog.text
        assert content(Path(local_path(published))) == before and live(memory, flat) == [published]
        require_verified(memory, flat)


def test_a_root_in_no_store_is_reported_and_the_others_are_cleaned(memory: SparkSession, tmp_path: Path) -> None:
    flat, parted = flat_table(memory, tmp_path / "t"), parted_table(memory, tmp_path / "p", 1)
    for table in (flat, parted):
        hive_bitmap.build(memory, table, ["k"])
        hive_bitmap.rebuild(memory, table, full=True)
    lost = only(memory, flat)
    alter_table.set_properties(memory, lost.table, to_properties(replace(lost.definition, root="foo://x/i")))
    reports = hive_bitmap.clean(memory, grace_seconds=0)
    assert [one.path for one in reports if one.kept] == ["foo://x/i"]
    assert "left alone, because it cannot be read: no reader for files of scheme 'foo'" in reports[-1].kept
    assert len([one for one in reports if one.due]) == 1
    with pytest.raises(Unsupported, match="no reader for files of scheme"):
        hive_bitmap.rebuild(memory, flat)
    hive_bitmap.drop_table(memory, flat)
    assert [one.name for one in catalog.tables_of_database(memory, "db") if one.name.count(flat)] == []


def test_folders_in_a_root_without_a_marker_stay(tmp_path: Path) -> None:
    """Nobody knows who made them. Of the root itself there is no trace if it is gone."""
    (tmp_path / "payroll" / "year=2024" / "month=1").mkdir(parents=True)
    definition = Definition(name="i", database="db", table="t", columns=(), root=f"file:{tmp_path}/payroll", id="1")
    folder = f"{definition.root}/year=2024/{generation_names.new_name()}"
    generation.start(folder, None, definition)
    assert deletion.delete([folder], definition, "m") == []
    deletion.remove_empty_parents([folder], definition, "m")
    assert "stays, because it has no marker _index.json" in deletion.remove_root(definition, "m")
    assert content(tmp_path) == ["payroll", "payroll/year=2024", "payroll/year=2024/month=1"]
    assert deletion.remove_root(replace(definition, root=f"{definition.root}/gone"), "m") == ""


class TestRebuild:
    """A rebuild writes where builds of the index have written, or where CREATE would."""

    def moved(self, spark: SparkSession, table: str, root: Path) -> None:
        index = only(spark, table)
        alter_table.set_properties(spark, index.table, to_properties(replace(index.definition, root=f"file:{root}")))
        catalog.clear_caches()

    def test_writes_to_no_folder_of_others(self, memory: SparkSession, tmp_path: Path) -> None:
        flat = flat_table(memory, tmp_path / "t")
        hive_bitmap.build(memory, flat, ["k"])
        (tmp_path / "payroll" / "year=2024").mkdir(parents=True)
        external_table(memory, "pay", tmp_path / "pay")
        said = {
            "payroll": "did not make folder",
            "t/in": "is missing and cannot be made again",
            "pay/in": "of table .*pay: give",
        }
        before = content(tmp_path)
        for place, sentence in said.items():
            self.moved(memory, flat, tmp_path / place)
            with pytest.raises(Unsupported, match=f"{sentence}.*: drop index k, and create it again"):
                hive_bitmap.rebuild(memory, flat, full=True)
            assert content(tmp_path) == before

    def test_makes_a_root_again_that_is_gone(self, memory: SparkSession, tmp_path: Path) -> None:
        flat = flat_table(memory, tmp_path / "t")
        hive_bitmap.build(memory, flat, ["k"])
        hive_bitmap.build(memory, flat, ["id"], location=str(tmp_path / "root"))
        for name in ("k", "id"):
            shutil.rmtree(root_of(memory, flat, name))
        hive_bitmap.rebuild(memory, flat)
        assert [one.fresh for one in hive_bitmap.show(memory, flat)] == [2, 2]
        require_verified(memory, flat)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows in /proc when a process began")
def test_what_a_failed_drop_left_goes_in_the_process_that_built_it(memory: SparkSession, tmp_path: Path) -> None:
    """Its message names this `clean`. A process knows of itself that no build of it is at work any more."""
    flat = flat_table(memory, tmp_path / "t")
    hive_bitmap.build(memory, flat, ["k"])
    index, root = only(memory, flat), root_of(memory, flat)
    alter_table.drop(memory, index.table)
    [report] = hive_bitmap.clean(memory, location=str(root))
    assert (report.why, report.due) == ("index k on " + index.definition.full_table + " was dropped", False)
    assert [one.due for one in hive_bitmap.clean(memory, location=str(root), grace_seconds=0)] == [True]
    assert not root.exists()


def test_a_build_of_this_process_that_is_at_work_is_left_alone(memory: SparkSession, tmp_path: Path) -> None:
    flat = flat_table(memory, tmp_path / "t")
    seen: list[tuple[list[str], list[str]]] = []

    def look(done: object) -> None:
        before = content(tmp_path / "root")
        reports = hive_bitmap.clean(memory, location=str(tmp_path / "root"), grace_seconds=0)
        seen.append((before, [one.path for one in reports if one.due]))
        assert content(tmp_path / "root") == before

    hive_bitmap.build(memory, flat, ["k"], location=str(tmp_path / "root"), progress=look)
    assert seen and all(before and not due for before, due in seen)
    require_verified(memory, flat)

    def test_that_holds_its_own_files_is_not_dropped(
        self, in_memory: MemoryMetastore, memory: SparkSession, tmp_path: Path
    ) -> None:
        """Its name comes first, but a managed table is none that a build has created."""
        flat = flat_table(memory, tmp_path / "t")
        hive_bitmap.build(memory, flat, ["k"])
        name = self.copy(memory, flat, tmp_path / "elsewhere")
        in_memory.give("db", name, kind="MANAGED")
        catalog.clear_caches()
        own = only(memory, flat).definition.index_table
        assert own != name and hive_bitmap.drop(memory, flat, "k")
        assert [table.name for table in in_memory.describe(memory, "db", [name, own], "")] == [name]
        assert hive_bitmap.drop(memory, flat, "k") and in_memory.describe(memory, "db", [name], "")
