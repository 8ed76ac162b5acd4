"""The state of a generation by its markers, and which generations may be deleted; folders are made by hand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation, generation_names, manifest, markers
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.generation import MARKER, RETIRED, State
from hive_bitmap.core.index.markers import GRACE_SECONDS, Author, Unreadable

DAY, HOUR = float(GRACE_SECONDS), 3600.0
OLD = "generation-20250101T000000-deadbeef"
HERE, ELSEWHERE = socket.gethostname(), "elsewhere"
DEFINITION = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), id="1" * 32)


@pytest.fixture(scope="module")
def dead() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        return child.pid


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    return replace(DEFINITION, root=f"file:{tmp_path}/root")


def local(folder: str) -> Path:
    return Path(stores.local_path(folder))


def mark(folder: str, author: Author) -> None:
    """Let another process, or another moment, have begun a generation."""
    content = markers.read(folder, MARKER)
    assert content is not None
    markers.write(folder, MARKER, {**content, **asdict(author)})


def complete(folder: str) -> None:
    (local(folder) / FOLDER / manifest.SHARDS_NAME).touch()


def retired(folder: str, seconds: float) -> None:
    markers.write(folder, RETIRED, {"retired": time.time() - seconds})


class TestNames:
    @pytest.mark.parametrize(
        ("name", "is_one"),
        [
            (OLD, True),
            (f"file:/w/root/{OLD}", True),
            ("generation-20251301T000000-deadbeef", False),  # a 13th month
            ("generation-20250101T000000-deadbee", False),
            ("generation-20250101T000000-DEADBEEF", False),
            (f"{OLD}/", False),
            (f"x{OLD}", False),
            ("root", False),
            ("", False),
        ],
    )
    def test_a_generation_is_told_by_its_name(self, name: str, is_one: bool) -> None:
        assert generation_names.is_generation(name) == is_one

    def test_a_new_name_is_one_that_no_other_build_has_and_tells_when_it_began(self) -> None:
        before = time.time()
        names = {generation_names.new_name() for _ in range(50)}
        assert len(names) == 50 and all(map(generation_names.is_generation, names))
        assert all(int(before) <= generation_names.build_time(f"file:/r/{name}") <= time.time() for name in names)

    def test_the_build_time_is_that_of_the_name_in_utc(self) -> None:
        at = datetime(2025, 1, 1, tzinfo=timezone.utc).timestamp()
        assert generation_names.build_time(f"file:/w/{OLD}") == at
        with pytest.raises(ValueError, match="file:/w/x is not a generation"):
            generation_names.build_time("file:/w/x")

    def test_the_token_of_a_build_ends_its_name(self) -> None:
        assert generation_names.build_token(f"file:/w-1/{OLD}") == "deadbeef"

    @pytest.mark.parametrize(
        ("folder", "belongs"),
        [
            (f"file:/r/{OLD}", True),
            (f"file:/r/p=1/{OLD}", True),
            (f"file:/r2/{OLD}", False),
            (f"file:/{OLD}", False),
            (f"file:/r/../x/{OLD}", False),
            (f"file:/r/..p/{OLD}", True),
            ("file:/r/p=1", False),
        ],
    )
    def test_a_location_belongs_to_an_index_if_it_is_a_generation_really_below_its_root(
        self, folder: str, belongs: bool
    ) -> None:
        assert generation_names.belongs_to(folder, replace(DEFINITION, root="file:/r")) == belongs

    @given(st.lists(st.one_of(st.none(), st.text(max_size=5)), min_size=1, max_size=3))
    def test_a_partition_has_a_folder_for_each_column_whatever_its_values_are(self, values: list[str | None]) -> None:
        names = ["a b", "p/q", "é"][: len(values)]
        folder = generation_names.partition_folder("file:/r", names, values)
        parts = folder.removeprefix("file:/r/").split("/")
        assert [part.partition("=")[0] for part in parts] == ["a b", "p%2Fq", "%C3%A9"][: len(values)]
        for part, value in zip(parts, values, strict=True):
            written = part.partition("=")[2]
            assert (written == "__NULL__") == (value in (None, "__NULL__"))
            if value is not None:
                assert bytes.fromhex("".join(_hex(written))) == value.encode()


def _hex(written: str) -> list[str]:
    """Return the bytes that a percent-encoded name stands for, each as two hex digits."""
    found, at = [], 0
    while at < len(written):
        coded = written[at] == "%"
        found.append(written[at + 1 : at + 3] if coded else f"{ord(written[at]):02x}")
        at += 3 if coded else 1
    return found


class TestStart:
    def test_a_generation_that_begins_is_marked_with_its_process_index_and_linked_shards(
        self, definition: Definition
    ) -> None:
        folder = f"{definition.root}/p=1/{OLD}"
        generation.start(folder, None, definition, ["part-1.parquet", "part-2.parquet"])
        built = generation.built(folder)
        assert built is not None and built.definition == definition == generation.definition_of(folder)
        assert (built.author.host, built.author.pid) == (HERE, os.getpid())
        assert built.linked == {"part-1.parquet", "part-2.parquet"}
        assert sorted(os.listdir(local(folder))) == [MARKER, FOLDER]
        assert generation.is_being_written(folder)
        complete(folder)
        assert not generation.is_being_written(folder)

    def test_a_folder_that_is_there_is_not_begun(self, definition: Definition) -> None:
        folder = f"{definition.root}/{OLD}"
        local(folder).mkdir(parents=True)
        with pytest.raises(FileExistsError, match="already existed, so somebody else may write into it"):
            generation.start(folder, None, definition)
        assert os.listdir(local(folder)) == []

    @pytest.mark.parametrize("link", ["p=1", "p=1/q=2"])
    def test_nothing_is_written_through_a_link_between_root_and_generation(
        self, tmp_path: Path, definition: Definition, link: str
    ) -> None:
        victim = tmp_path / "victim"
        (victim / "q=2").mkdir(parents=True)
        at = tmp_path / "root" / link
        at.parent.mkdir(parents=True)
        at.symlink_to(victim)
        with pytest.raises(OSError, match=f"folder file:{at} is a link, and nothing is written through links: remove"):
            generation.start(f"{definition.root}/p=1/q=2/{OLD}", None, definition)
        assert sorted(str(path.relative_to(victim)) for path in victim.rglob("*")) == ["q=2"]

    def test_the_root_itself_may_be_a_link(self, tmp_path: Path, definition: Definition) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "root").symlink_to(tmp_path / "elsewhere")
        generation.start(f"{definition.root}/{OLD}", None, definition)
        assert generation.definition_of(f"file:{tmp_path}/elsewhere/{OLD}") == definition


class TestBuilt:
    def test_without_a_marker_nothing_is_known(self, tmp_path: Path) -> None:
        (tmp_path / OLD).mkdir()
        assert generation.built(f"file:{tmp_path}/{OLD}") is None
        assert generation.built(f"file:{tmp_path}/none") is None
        assert generation.definition_of(f"file:{tmp_path}/{OLD}") is None
        assert not generation.is_being_written(f"file:{tmp_path}/{OLD}")

    def test_early_versions_named_no_linked_shards(self, definition: Definition) -> None:
        folder = f"{definition.root}/{OLD}"
        generation.start(folder, None, definition)
        content = dict(markers.read(folder, MARKER) or {})
        del content["linked"]
        markers.write(folder, MARKER, content)
        built = generation.built(folder)
        assert built is not None and built.linked is None

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"definition": None}, "its marker _built_by names no index"),
            ({"definition": {"hive_bitmap.version": "1"}}, "its marker _built_by names no index"),
            ({"definition": {"hive_bitmap.version": 1}}, "its marker _built_by names no index"),
            ({"definition": ["x"]}, "its marker _built_by names no index"),
            ({"linked": "part-1.parquet"}, "its marker _built_by is damaged"),
            ({"linked": [1]}, "its marker _built_by is damaged"),
            ({"pid": -1}, "its marker _built_by does not say who wrote it"),
        ],
    )
    def test_a_marker_that_says_too_little_cannot_be_read(
        self, definition: Definition, changes: dict[str, object], why: str
    ) -> None:
        folder = f"{definition.root}/{OLD}"
        generation.start(folder, None, definition)
        markers.write(folder, MARKER, {**(markers.read(folder, MARKER) or {}), **changes})
        with pytest.raises(Unreadable) as error:
            generation.built(folder)
        assert str(error.value) == why
        usage = generation.usage(folder)
        assert (usage.state, usage.unused_seconds, usage.problem) == (State.UNKNOWN, 0.0, why)
        assert generation.definition_of(folder) is None and not generation.is_being_written(folder)


@pytest.mark.parametrize(
    ("name", "content", "state"),
    [
        (OLD, [], State.ORPHANED),  # it was killed as it began
        (OLD, [f"{MARKER}.0123abcd.begun"], State.ORPHANED),
        (OLD, [RETIRED], State.ORPHANED),
        (OLD, ["other"], State.UNKNOWN),
        (OLD, [f"{MARKER}.0123abcd"], State.UNKNOWN),
        (OLD, [f"{FOLDER}/"], State.UNKNOWN),
        ("new", [], State.BUILDING),
        ("new", ["other"], State.UNKNOWN),
    ],
)
def test_the_state_of_a_folder_without_marker(tmp_path: Path, name: str, content: list[str], state: State) -> None:
    folder = tmp_path / (generation_names.new_name() if name == "new" else name)
    folder.mkdir()
    for entry in content:
        (folder / entry).mkdir() if entry.endswith("/") else (folder / entry).touch()
    usage = generation.usage(f"file:{folder}")
    assert usage.state is state and usage.definition is None
    assert usage.unused_seconds == (float("inf") if state is State.ORPHANED else 0.0)
    assert usage.problem == ("it has no marker _built_by" if state is State.UNKNOWN else "")


@dataclass(frozen=True)
class Made:
    """A generation as it is made: who began it, how long ago, what became of it since; `retired` is seconds ago."""

    host: str
    alive: bool
    age: float
    complete: bool
    retired: float | None
    live: bool = False
    mine: bool = True

    @property
    def is_at_work(self) -> bool:
        if self.host == ELSEWHERE:
            return self.age < DAY
        return self.alive and (self.age < DAY or not self.complete)

    @property
    def state(self) -> State:
        if self.retired is not None:
            return State.REPLACED
        if self.is_at_work:
            return State.BUILDING
        return State.COMPLETE if self.complete else State.ORPHANED

    def may_go(self, grace: float) -> bool:
        if self.live or not self.mine or self.state is State.BUILDING:
            return False
        waited = {State.COMPLETE: 0.0, State.ORPHANED: float("inf"), State.REPLACED: self.retired or 0.0}
        return waited[self.state] >= grace

    def make(self, root: str, dead: int, definition: Definition) -> str:
        folder = f"{root}/generation-20250101T000000-{uuid4().hex[:8]}"
        generation.start(folder, None, definition if self.mine else replace(definition, id="2" * 32))
        mark(folder, Author(self.host, os.getpid() if self.alive else dead, time.time() - self.age))
        if self.complete:
            complete(folder)
        if self.retired is not None:
            retired(folder, self.retired)
        return folder


MADE = st.builds(
    Made,
    host=st.sampled_from([HERE, ELSEWHERE]),
    alive=st.booleans(),
    age=st.sampled_from([HOUR, 2 * DAY]),
    complete=st.booleans(),
    retired=st.sampled_from([None, None, 600.0, 2 * DAY]),
    live=st.sampled_from([False, False, True]),
    mine=st.sampled_from([True, True, False]),
)


@given(st.lists(MADE, min_size=1, max_size=4), st.sampled_from([0.0, HOUR, DAY]))
@settings(max_examples=80)
def test_states_by_markers_and_what_is_superseded(tmp_path: Path, dead: int, made: list[Made], grace: float) -> None:
    definition = replace(DEFINITION, root=f"file:{tmp_path}/{uuid4().hex}")
    folders = [one.make(definition.root, dead, definition) for one in made]
    for folder, one in zip(folders, made, strict=True):
        usage = generation.usage(folder)
        assert usage.state is one.state
        assert usage.definition is not None and (usage.definition == definition) == one.mine
        expected = {State.REPLACED: one.retired, State.ORPHANED: float("inf")}.get(one.state, 0.0)
        assert expected is not None and expected <= usage.unused_seconds <= expected + 60
    live = {folder for folder, one in zip(folders, made, strict=True) if one.live}
    found = generation.superseded(folders, live, definition, grace)
    assert found == [folder for folder, one in zip(folders, made, strict=True) if one.may_go(grace)]
    for folder, one in zip(folders, made, strict=True):
        begun = one.state is State.COMPLETE and not one.live and one.mine
        assert (local(folder) / RETIRED).exists() == (begun or one.retired is not None)


class TestRetired:
    @pytest.fixture
    def folder(self, definition: Definition) -> str:
        folder = f"{definition.root}/{OLD}"
        generation.start(folder, None, definition)
        complete(folder)
        return folder

    def test_a_moment_in_the_future_is_now(self, folder: str) -> None:
        retired(folder, -DAY)
        assert (generation.usage(folder).state, generation.usage(folder).unused_seconds) == (State.REPLACED, 0.0)

    @pytest.mark.parametrize(
        "content", ["{", '{"retired": true}', '{"retired": "1"}', "[]", '{"retired": 1, "crc32": 1}']
    )
    def test_a_marker_that_tells_no_moment_is_none(self, folder: str, content: str, dead: int) -> None:
        """The grace period begins anew, so that nobody's files are deleted too early."""
        mark(folder, Author(HERE, dead, time.time()))
        (local(folder) / RETIRED).write_text(content)
        assert generation.usage(folder).state is State.COMPLETE

    def test_only_a_generation_of_this_index_is_retired(self, folder: str, definition: Definition) -> None:
        for other in (replace(definition, id="2" * 32), replace(definition, table="u")):
            generation.retire(folder, other)
        assert not (local(folder) / RETIRED).exists()
        generation.retire(definition.root, definition)  # is none
        assert os.listdir(local(definition.root)) == [OLD]
        generation.retire(folder, definition)
        usage = generation.usage(folder)
        assert usage.state is State.REPLACED and usage.unused_seconds < 60

    def test_what_a_link_leads_to_is_not_retired(
        self, folder: str, definition: Definition, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        local(folder).rename(tmp_path / "moved")
        local(folder).symlink_to(tmp_path / "moved")
        generation.retire(folder, definition)
        assert not (tmp_path / "moved" / RETIRED).exists()
        assert f"folder {folder} was replaced, but stays: it is a link" in caplog.text


class TestFound:
    """Which generations there are below a root: real folders alone, at the depth of the partition columns."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        for place in (OLD, f"p=1/{OLD}", f"p=1/q=2/{OLD}", f"p=2/{OLD}", f"other/{OLD}", "p=1/generation-x"):
            (tmp_path / "root" / place).mkdir(parents=True)
        (tmp_path / "root" / "p=3").write_text("a file")
        (tmp_path / "away" / OLD).mkdir(parents=True)
        (tmp_path / "root" / "p=4").symlink_to(tmp_path / "away")
        (tmp_path / "root" / "p=2" / OLD.replace("dead", "beef")).symlink_to(tmp_path / "away")
        (tmp_path / "root" / "link").symlink_to(tmp_path / "away")
        return f"file:{tmp_path}/root"

    def test_at_any_depth(self, root: str) -> None:
        above = [root, f"{root}/p=1", f"{root}/p=2", f"{root}/p=1/q=2"]
        assert generation.with_partitions(root) == above
        assert generation.all_below(root) == [f"{folder}/{OLD}" for folder in above]
        assert generation.in_folders([f"{root}/p=2", f"{root}/none"]) == [f"{root}/p=2/{OLD}"]

    def test_links_that_are_named_like_ours(self, root: str) -> None:
        assert generation.links_below(root) == [f"{root}/p=4", f"{root}/p=2/{OLD.replace('dead', 'beef')}"]

    def test_the_size_is_that_of_the_shards_and_of_the_manifest(self, root: str) -> None:
        folder = local(f"{root}/{OLD}")
        (folder / FOLDER).mkdir()
        (folder / "other").mkdir()
        for place, size in (("part-1.parquet", 100), (f"{FOLDER}/files.parquet", 20), ("other/file", 3)):
            (folder / place).write_bytes(bytes(size))
        assert generation.size(f"{root}/{OLD}") == 120
        assert generation.size(f"{root}/none") == 0


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        (MARKER, True),
        (RETIRED, True),
        (f"{MARKER}.0123abcd.begun", True),
        (f"{RETIRED}.0123abcd.begun", True),
        (f"{MARKER}.0123abcg.begun", False),
        (f"x{MARKER}", False),
        ("_index.json", False),
    ],
)
def test_markers_are_told_by_their_names(name: str, is_one: bool) -> None:
    assert generation.is_marker(name) == is_one
