"""Whose the root of an index is, by the marker in it: claimed once, compared before anything is deleted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import markers, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.markers import Unreadable
from hive_bitmap.errors import Unsupported

ID, OTHER_ID = "1" * 32, "2" * 32
DEFINITION = Definition(
    name="i", database="db", table="t", columns=(Column("k", "int"),), index_table="db__t_i__", root="file:/r", id=ID
)


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    return replace(DEFINITION, root=f"file:{tmp_path}/a/root")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "a" / "root" / roots.MARKER


def says_another(definition: Definition, of: str = "i on db.t") -> str:
    return f"folder {definition.root} is left alone, because its marker _index.json names index {of}"


class TestClaim:
    def test_a_root_is_marked_once_with_the_index_and_its_metastore(self, definition: Definition, marker: Path) -> None:
        assert not roots.is_marked(definition, "m1")
        roots.claim(definition, "m1")
        owner = roots.owner(definition.root)
        assert owner is not None
        assert (owner.id, owner.database, owner.table, owner.index) == (ID, "db", "t", "i")
        assert (owner.metastore, owner.author.pid, owner.described) == ("m1", os.getpid(), "i on db.t")
        assert roots.is_marked(definition, "m1") and roots.refusal(definition, "m1") == ""
        before = marker.read_bytes()
        roots.claim(replace(definition, name="renamed"), "m1")
        assert marker.read_bytes() == before

    @pytest.mark.parametrize("change", [{"id": OTHER_ID}, {"table": "u"}, {"database": "other"}, {"id": ""}])
    def test_the_root_of_another_index_is_refused_and_its_marker_stays(
        self, definition: Definition, marker: Path, change: dict[str, str]
    ) -> None:
        roots.claim(definition, "m")
        before = marker.read_bytes()
        other = replace(definition, name="j", **change)  # type: ignore[arg-type]
        with pytest.raises(Unsupported) as error:
            roots.claim(other, "m")
        assert str(error.value) == f"{says_another(definition)}: drop index j, and create it again"
        assert roots.refusal(other, "m") == says_another(definition)
        assert not roots.is_marked(other, "m") and marker.read_bytes() == before

    def test_the_marker_names_the_database_of_an_index_table_elsewhere(
        self, definition: Definition, marker: Path
    ) -> None:
        roots.claim(definition, "m")
        owner = roots.owner(definition.root)
        assert owner is not None and owner.index_database == "" and "index_database" not in marker.read_text()
        marker.unlink()
        roots.claim(replace(definition, index_database="idx"), "m")
        owner = roots.owner(definition.root)
        assert owner is not None and owner.index_database == "idx"

    def test_an_index_of_an_early_version_marks_no_root(self, definition: Definition, marker: Path) -> None:
        early = replace(definition, id="")
        roots.claim(early, "m")
        assert marker.parent.is_dir() and not marker.exists()
        assert roots.owner(definition.root) is None and roots.refusal(early, "m") == ""
        assert not roots.is_marked(early, "m")

    def test_a_marker_that_cannot_be_read_stays_and_keeps_what_is_there(
        self, definition: Definition, marker: Path
    ) -> None:
        marker.parent.mkdir(parents=True)
        marker.write_text("{")
        roots.claim(definition, "m")
        assert marker.read_text() == "{" and not roots.is_marked(definition, "m")
        assert roots.refusal(definition, "m") == (
            f"folder {definition.root} is left alone, because its marker _index.json is damaged: if it is this index's "
            "folder, delete the marker, and the next rebuild writes it again"
        )

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"id": ""}, "its marker _index.json names no index"),
            ({"id": None}, "its marker _index.json names no index"),
            ({"table": 1}, "its marker _index.json names no index"),
            ({"metastore": None}, "its marker _index.json names no index"),
            ({"index_database": "a${b}"}, "its marker _index.json has an invalid index_database"),
            ({"started": None}, "its marker _index.json does not say who wrote it"),
        ],
    )
    def test_a_marker_that_says_too_little_cannot_be_read(
        self, definition: Definition, change: dict[str, object], why: str
    ) -> None:
        roots.claim(definition, "m")
        content = markers.read(definition.root, roots.MARKER) or {}
        markers.write(definition.root, roots.MARKER, {**content, **change})
        with pytest.raises(Unreadable) as error:
            roots.owner(definition.root)
        assert str(error.value) == why


class TestOtherMetastores:
    """The marker names the metastore: a copy has the same tables with the same ids."""

    ANOTHERS = "left alone, because its marker _index.json names another metastore"

    @pytest.mark.parametrize(
        ("marked", "mine", "elsewhere", "why"),
        [
            ("m1", "m1", False, ""),
            ("m1,m2", "m2", False, ""),
            ("m1", "m2,m1", False, ""),
            ("", "m1", False, ""),
            ("", "", False, ""),
            ("m1", "m2", True, ANOTHERS),
            ("m1,m2", "m3,m12", True, ANOTHERS),
            ("m1", "", False, "left alone, because this session cannot tell whether its metastore is the one"),
        ],
    )
    def test_only_sessions_of_the_same_metastore_delete(
        self, definition: Definition, marker: Path, marked: str, mine: str, elsewhere: bool, why: str
    ) -> None:
        roots.claim(definition, marked)
        before = marker.read_bytes()
        assert roots.is_elsewhere(definition, mine) is elsewhere
        assert roots.is_elsewhere(replace(definition, id=""), mine) is elsewhere, (
            "an early index takes the id of its root"
        )
        refusal = roots.refusal(definition, mine)
        assert why in refusal and bool(refusal) == bool(why) and roots.is_marked(definition, mine) == (not why)
        if elsewhere:
            with pytest.raises(Unsupported, match="names another metastore: drop index i, and create it again"):
                roots.claim(definition, mine)
        else:
            roots.claim(definition, mine)
        assert marker.read_bytes() == before
        roots.take_over(definition, mine)
        known = roots.owner(definition.root)
        assert known is not None and known.metastore == (mine if elsewhere else marked) and known.id == ID

    def test_that_of_another_index_is_not_taken_over(self, definition: Definition, marker: Path) -> None:
        roots.claim(definition, "m1")
        before = marker.read_bytes()
        for other in (replace(definition, id=OTHER_ID), replace(definition, table="u")):
            roots.take_over(other, "m2")
            assert not roots.is_elsewhere(other, "m2") and marker.read_bytes() == before
        marker.write_text("{")
        roots.take_over(definition, "m2")
        assert not roots.is_elsewhere(definition, "m2") and marker.read_text() == "{"


class TestIdentified:
    def test_an_id_never_changes(self, definition: Definition) -> None:
        roots.claim(replace(definition, id=OTHER_ID), "m")
        assert roots.identified(definition) is definition

    def test_one_without_takes_that_of_its_root(self, definition: Definition) -> None:
        roots.claim(definition, "m")
        assert roots.identified(replace(definition, id="", name="renamed")).id == ID

    @pytest.mark.parametrize("harm", ["no marker", "damaged", "of another table"])
    def test_else_it_gets_a_new_one(self, definition: Definition, marker: Path, harm: str) -> None:
        if harm != "no marker":
            roots.claim(replace(definition, table="u"), "m")
        if harm == "damaged":
            marker.write_bytes(marker.read_bytes()[:-5])
        early = replace(definition, id="")
        first, second = roots.identified(early), roots.identified(early)
        assert len({first.id, second.id, ID, ""}) == 4
        assert replace(first, id="") == early


class TestOnlyBegun:
    """Markers that killed builds had begun to write are the only files in a root that go without a marker."""

    BEGUN = (f"{roots.MARKER}.0123abcd.begun", f"{roots.MARKER}.89abcdef.begun")

    def names(self, folder: Path, alone: bool) -> list[str]:
        return [file.path.removeprefix(f"file:{folder}/") for file in roots.only_begun(f"file:{folder}", alone)]

    def test_of_a_folder_that_holds_nothing_else(self, tmp_path: Path) -> None:
        assert self.names(tmp_path, True) == self.names(tmp_path / "none", True) == []
        for name in self.BEGUN:
            (tmp_path / name).touch()
        assert self.names(tmp_path, True) == self.names(tmp_path, False) == list(self.BEGUN)

    @pytest.mark.parametrize("name", ["a file", "0 folder", f"{roots.MARKER}.0123ABCD.begun", "link"])
    def test_of_a_folder_that_holds_more_only_if_that_is_allowed(self, tmp_path: Path, name: str) -> None:
        (tmp_path / self.BEGUN[0]).touch()
        if name == "link":
            (tmp_path / self.BEGUN[1]).symlink_to(tmp_path / self.BEGUN[0])
        else:
            (tmp_path / name).mkdir() if "folder" in name else (tmp_path / name).touch()
        assert self.names(tmp_path, True) == []
        assert self.names(tmp_path, False) == [self.BEGUN[0]]

    def test_none_beside_a_marker_whatever_it_says(self, tmp_path: Path) -> None:
        for name in (*self.BEGUN, roots.MARKER):
            (tmp_path / name).touch()
        assert self.names(tmp_path, False) == []


IDS = st.sampled_from(["", ID, OTHER_ID])
DEFINITIONS = st.builds(
    lambda **changes: replace(DEFINITION, **changes),
    id=IDS,
    table=st.sampled_from("tu"),
    root=st.sampled_from(["file:/r", "file:/s"]),
    index_table=st.sampled_from(["db__t_i__", "copy", f"db__t_i__{ID[:8]}next__", f"db__t_i__{OTHER_ID[:8]}next__"]),
    index_database=st.sampled_from(["", "idx"]),
)


@given(DEFINITIONS, DEFINITIONS)
def test_two_definitions_are_of_one_index_by_table_and_id_or_else_by_root(one: Definition, other: Definition) -> None:
    same_table = (one.database, one.table) == (other.database, other.table)
    by_id, by_root = one.id == other.id, one.root == other.root
    expected = same_table and (by_id if one.id and other.id else by_root)
    assert roots.is_of(one, other) == roots.is_of(other, one) == expected


@given(DEFINITIONS, DEFINITIONS)
def test_a_replacement_has_the_next_table_the_root_and_the_index(new: Definition, old: Definition) -> None:
    expected = (
        new.full_index_table == f"{old.full_index_table}{old.id[:8]}next__"
        and new.root == old.root
        and roots.is_of(new, old)
    )
    assert roots.is_replacement(new, old) == expected
    made = replace(old, index_table=roots.next_table(old))
    assert roots.is_replacement(made, old) and not roots.is_replacement(old, made)


@given(DEFINITIONS, st.lists(DEFINITIONS, max_size=3))
@example(DEFINITION, [replace(DEFINITION, index_table=roots.next_table(DEFINITION))])  # a build was killed as it began
@example(replace(DEFINITION, index_table=roots.next_table(DEFINITION)), [DEFINITION])
@example(DEFINITION, [replace(DEFINITION, index_table=roots.next_table(DEFINITION), root="file:/s")])
def test_a_rival_is_another_table_that_claims_to_be_this_index_and_is_no_replacement(
    definition: Definition, others: list[Definition]
) -> None:
    rivals = [
        other
        for other in others
        if other.full_index_table != definition.full_index_table
        and roots.is_of(other, definition)
        and not roots.is_replacement(other, definition)
        and not roots.is_replacement(definition, other)
    ]
    tables = f"tables {definition.full_index_table} and {rivals[0].full_index_table if rivals else ''}"
    said = f"folder {definition.root} is left alone, because {tables} claim it: drop the copy by DROP TABLE"
    assert roots.rival(definition, others) == (said if rivals else "")
