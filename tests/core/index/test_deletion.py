"""What of a generation and of a root is deleted: what this very index has named, and nothing else, markers last."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import deletion, generation, generation_names, markers, roots
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.generation import MARKER, RETIRED
from hive_bitmap.core.stores import local

OLD = "generation-20250101T000000-deadbeef"
OWN, LINKED = f"part-deadbeef{'0' * 24}", f"part-0123abcd{'0' * 24}"
DEFINITION = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), id="1" * 32)
# What a build of this generation writes into it, or links.
OURS = (
    f"{OWN}.parquet",
    f"{LINKED}.parquet",
    *(f"{FOLDER}/{name}" for name in ("files.parquet", "shards.parquet", "manifest.json.gz", "checksums")),
    f"{FOLDER}/{OWN}.cardinalities",
    f"{FOLDER}/{LINKED}.cardinalities",
    "_staging/staged.parquet",
    f"_staging/{'a' * 32}.parquet",
    RETIRED,
    f"{RETIRED}.0123abcd.begun",
    f"{MARKER}.0123abcd.begun",
)
# What it does not, though some of it has such names elsewhere.
THEIRS = (
    "000000_0",
    f"part-{'0' * 32}.parquet",  # of another build, and not linked
    f"part-deadbeef{'0' * 23}.parquet",
    f"part-deadbeef{'G' * 24}.parquet",
    f"{OWN}.parquet.crc",
    "shards.parquet",
    "staged.parquet",
    f"{OWN}.cardinalities",
    f"{FOLDER}/note",
    f"{FOLDER}/{OWN}.parquet",
    f"{FOLDER}/part-{'0' * 32}.cardinalities",
    f"{FOLDER}/sub/files.parquet",
    "_staging/note",
    f"_staging/{'a' * 31}.parquet",
    f"sub/{OWN}.parquet",
    f"part-deadbeef{'1' * 24}.parquet/inside",  # a folder with the name of a shard
)


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    """An index whose root is marked as its own."""
    found = replace(DEFINITION, root=f"file:{tmp_path}/root")
    roots.claim(found, "m")
    return found


def local_of(folder: str) -> Path:
    return Path(stores.local_path(folder))


def begin(definition: Definition, place: str = OLD, files: Sequence[str] = OURS) -> str:
    folder = f"{definition.root}/{place}"
    generation.start(folder, None, definition, [f"{LINKED}.parquet"])
    fill(local_of(folder), files)
    return folder


def fill(folder: Path, files: Sequence[str]) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")


def content(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


class TestDelete:
    def test_all_that_a_build_has_named_goes_and_nothing_stays(self, definition: Definition) -> None:
        folder = begin(definition)
        assert content(local_of(folder)) == {*OURS, MARKER}
        assert deletion.delete([folder], definition, "m") == []
        assert os.listdir(local_of(definition.root)) == [roots.MARKER]
        assert deletion.delete([folder], definition, "m") == []  # it is gone already
        assert deletion.delete([], definition, "m") == []

    @given(st.sets(st.sampled_from(THEIRS)), st.sets(st.sampled_from(OURS)))
    @settings(max_examples=60)
    def test_what_others_have_put_there_stays_with_the_marker_and_is_told(
        self, tmp_path: Path, theirs: set[str], ours: set[str]
    ) -> None:
        definition = replace(DEFINITION, root=f"file:{tmp_path}/{uuid4().hex}")
        folder = begin(definition, files=sorted(theirs | ours))
        remains = deletion.delete([folder], definition, "m")
        left = content(local_of(folder)) if theirs else set()
        assert left - {MARKER, RETIRED, f"{RETIRED}.0123abcd.begun", f"{MARKER}.0123abcd.begun"} == theirs
        assert local_of(folder).exists() == bool(theirs) == bool(remains)
        if not theirs:
            return
        assert MARKER in left
        named = sorted({name.partition("/")[0] for name in theirs})
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        [told] = remains
        assert told.folder == folder
        assert told.why == (
            f"folder {folder} stays, because it holds files that no build of this index has named: "
            f"{', '.join(named[:5])}{more}; delete your files in it by hand"
        )
        for name in theirs:
            (local_of(folder) / name).unlink()
        for inner in sorted(local_of(folder).rglob("*"), reverse=True):
            if inner.is_dir():
                inner.rmdir()
        assert deletion.delete([folder], definition, "m") == [] and not local_of(folder).exists()

    def test_shards_of_early_versions_have_any_token(self, definition: Definition) -> None:
        folder = begin(definition, files=[f"part-{'0' * 32}.parquet", "part-1.parquet"])
        content_of = dict(markers.read(folder, MARKER) or {})
        del content_of["linked"]
        markers.write(folder, MARKER, content_of)
        [told] = deletion.delete([folder], definition, "m")
        assert "named: part-1.parquet;" in told.why
        assert content(local_of(folder)) == {"part-1.parquet", MARKER}

    def test_a_linked_name_that_no_build_gives_deletes_nothing(self, definition: Definition) -> None:
        """Whoever may write the marker could else have any file deleted."""
        folder = f"{definition.root}/{OLD}"
        generation.start(folder, None, definition, ["payroll.parquet"])
        fill(local_of(folder), ["payroll.parquet"])
        [told] = deletion.delete([folder], definition, "m")
        assert "payroll.parquet" in told.why and "payroll.parquet" in content(local_of(folder))

    @pytest.mark.parametrize("change", [{"id": "2" * 32}, {"id": "", "table": "u"}])
    def test_a_generation_of_another_index_is_left_alone(self, definition: Definition, change: dict[str, str]) -> None:
        other = replace(definition, name="j", **change)  # type: ignore[arg-type]
        folder = begin(other)
        before = content(local_of(folder))
        [told] = deletion.delete([folder], definition, "m")
        assert (told.folder, told.why) == (
            folder,
            f"it is left alone, because it belongs to index j in {definition.root}",
        )
        assert content(local_of(folder)) == before

    @pytest.mark.parametrize(
        ("marker", "why"),
        [(None, "it has no marker _built_by"), ("{", "its marker _built_by is damaged")],
    )
    def test_without_a_marker_that_can_be_read_only_remains_of_markers_go(
        self, definition: Definition, marker: str | None, why: str
    ) -> None:
        folder = begin(definition)
        (local_of(folder) / MARKER).unlink()
        if marker is not None:
            (local_of(folder) / MARKER).write_text(marker)
        before = content(local_of(folder))
        [told] = deletion.delete([folder], definition, "m")
        assert told.why == f"it is left alone, because {why}" and content(local_of(folder)) == before
        killed = local_of(definition.root) / generation_names.new_name()  # as it began
        fill(killed, [f"{MARKER}.0123abcd.begun", *([] if marker is None else [MARKER])])
        assert deletion.delete([f"file:{killed}"], definition, "m") == [] and not killed.exists()

    def test_nothing_goes_in_a_root_of_another_index(self, tmp_path: Path) -> None:
        first = replace(DEFINITION, root=f"file:{tmp_path}/root")
        roots.claim(first, "m")
        second = replace(first, id="2" * 32)
        folders = [begin(second), begin(second, f"p=1/{OLD}")]
        before = content(tmp_path)
        found = deletion.delete(folders, second, "m")
        why = roots.refusal(second, "m")
        assert why and found == [deletion.Remains(folder, why) for folder in folders]
        assert deletion.remove_root(second, "m") == why and content(tmp_path) == before

    @pytest.mark.parametrize("place", [OLD, "p=1", "p=1/q=2"])
    def test_no_link_between_root_and_files_is_followed(
        self, definition: Definition, tmp_path: Path, place: str
    ) -> None:
        folder = begin(definition, OLD if place == OLD else f"p=1/q=2/{OLD}")
        at = local_of(definition.root) / place
        at.rename(tmp_path / "victim")
        at.symlink_to(tmp_path / "victim")
        before = content(tmp_path / "victim")
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            deletion.delete([folder], definition, "m")
        assert content(tmp_path / "victim") == before

    @pytest.mark.parametrize("survivors", range(9))
    def test_what_a_killed_deletion_leaves_is_still_known_as_ours(
        self, definition: Definition, survivors: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is killed as it calls the store for the nth time. The marker goes last, so another can end it."""
        folder = begin(definition)
        real, calls = local.Local.delete_files, [0]

        def killed(self: local.Local, inside: str, names: Sequence[str], root: str) -> None:
            calls[0] += 1
            if calls[0] > survivors:
                raise KeyboardInterrupt
            real(self, inside, names, root)

        with monkeypatch.context() as patch:
            patch.setattr(local.Local, "delete_files", killed)
            try:
                deletion.delete([folder], definition, "m")
            except KeyboardInterrupt:
                assert MARKER in content(local_of(folder))
        assert deletion.delete([folder], definition, "m") == []
        assert os.listdir(local_of(definition.root)) == [roots.MARKER]


class TestStaging:
    def test_what_is_staged_goes_and_the_rest_stays(self, definition: Definition) -> None:
        folder = begin(definition)
        deletion.delete_staging(f"{folder}/_staging", definition.root)
        assert content(local_of(folder)) == {name for name in (*OURS, MARKER) if not name.startswith("_staging")}
        assert not (local_of(folder) / "_staging").exists()
        fill(local_of(folder), ["_staging/note", "_staging/staged.parquet"])
        deletion.delete_staging(f"{folder}/_staging", definition.root)
        assert os.listdir(local_of(folder) / "_staging") == ["note"]


class TestRoot:
    def test_a_root_that_holds_nothing_else_goes_with_its_partitions(self, definition: Definition) -> None:
        for place in ("p=1/q=2", "p=1/q=3", "p=2"):
            (local_of(definition.root) / place).mkdir(parents=True)
        fill(local_of(definition.root), [f"{roots.MARKER}.0123abcd.begun"])
        assert deletion.remove_root(definition, "m") == "" and not local_of(definition.root).exists()
        assert deletion.remove_root(definition, "m") == ""

    def test_what_others_have_put_there_stays_and_the_rest_goes(self, definition: Definition, tmp_path: Path) -> None:
        root = local_of(definition.root)
        for place in ("p=1", "p=2", "folder"):
            (root / place).mkdir()
        (root / "p=3").symlink_to(tmp_path)
        fill(root, ["note", "p=1/note", f"p=1/{roots.MARKER}", "p=4"])
        said = deletion.remove_root(definition, "m")
        assert said == (
            f"folder {definition.root} stays, because it holds files that no build of this index has named: "
            f"folder, note, p=3, p=4, p=1/{roots.MARKER} and 1 more; delete your files in it by hand"
        )
        assert sorted(os.listdir(root)) == [roots.MARKER, "folder", "note", "p=1", "p=3", "p=4"]
        for name in ("p=1/note", f"p=1/{roots.MARKER}", "p=3", "p=4"):
            (root / name).unlink()
        assert "folder, note; delete" in deletion.remove_root(definition, "m")
        assert sorted(os.listdir(root)) == ["folder", "note"]  # neither is ours, so the marker has nothing to tell

    def test_while_a_build_runs_the_root_stays_with_its_marker(self, definition: Definition) -> None:
        folder = begin(definition, f"p=1/{OLD}")
        assert deletion.remove_root(definition, "m") == ""
        assert roots.is_marked(definition, "m") and content(local_of(folder)) == {*OURS, MARKER}

    def test_without_a_marker_all_folders_stay(self, tmp_path: Path) -> None:
        early = replace(DEFINITION, root=f"file:{tmp_path}/root", id="")
        (tmp_path / "root" / "p=1").mkdir(parents=True)
        assert deletion.remove_root(early, "m") == (
            f"folder {early.root} stays, because it has no marker _index.json; delete your files in it by hand"
        )
        deletion.remove_empty_parents([f"{early.root}/p=1/{OLD}"], early, "m")
        assert (tmp_path / "root" / "p=1").is_dir()

    def test_folders_above_generations_go_as_far_as_they_are_empty(self, definition: Definition) -> None:
        root = local_of(definition.root)
        for place in ("p=1/q=1", "p=1/q=2", "p=2/q=1"):
            (root / place).mkdir(parents=True)
        fill(root, ["p=1/q=2/note"])
        folders = [
            f"{definition.root}/p=1/q=1/{OLD}",
            f"{definition.root}/p=1/q=2/{OLD}",
            f"{definition.root}/p=2/q=1/x",
        ]
        deletion.remove_empty_parents(folders, definition, "m")
        assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == [
            roots.MARKER,
            "p=1",
            "p=1/q=2",
            "p=1/q=2/note",
        ]
