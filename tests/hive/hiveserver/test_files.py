"""Folders and texts by `dfs`, which splits at blanks, takes paths for globs, and says not why nothing is listed."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.errors import NotPermitted, ServerError, Unsupported
from hive_bitmap.hive.hiveserver.files import Entry, entries, glob, lines
from tests.hive.hiveserver.folders import server

NAMES = st.text("ab *?[]{}\\'\"%|é$;", min_size=1, max_size=6)


@settings(max_examples=60)
@given(NAMES, st.dictionaries(NAMES.filter(lambda name: "|" not in name), st.binary(max_size=5), max_size=4))
def test_a_folder_of_any_name_is_listed_by_name(
    tmp_path_factory: pytest.TempPathFactory, name: str, files: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("w") / name
    folder.mkdir()
    for one, content in files.items():
        (folder / one).write_bytes(content)
        os.utime(folder / one, ns=(0, 1_700_000_000_123_000_000))
    found = entries(server(), f"file:{folder}")
    assert found == [Entry(one, False, len(files[one]), 1_700_000_000_123) for one in sorted(files)]


def test_folders_are_told_from_files_and_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deeper").mkdir(parents=True)
    (tmp_path / "a").write_text("abc")
    found = entries(server(), f"file:{tmp_path}")
    assert found is not None
    assert [(one.name, one.is_folder, one.size) for one in found] == [("a", False, 3), ("sub", True, 0)]


def test_a_folder_that_is_not_there_and_one_that_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert entries(server(), f"file:{tmp_path}/empty") == []
    assert entries(server(), f"file:{tmp_path}/nowhere") is None


def test_what_cannot_be_listed_is_not_taken_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with pytest.raises(NotPermitted):
        entries(server(denied="/w"), f"file:{tmp_path}/w")
    with pytest.raises(ServerError, match=r"^the folder file:.*/w cannot be listed: HS2 rejected: Command failed"):
        entries(server(), f"file:{tmp_path}/nowhere/w")


def test_a_name_with_a_separator_is_read_whole_and_one_of_two_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a|b").write_text("abc")
    assert [one.name for one in entries(server(), f"file:{tmp_path}") or []] == ["a|b"]
    (tmp_path / "a\nb").write_text("abc")
    with pytest.raises(Unsupported, match=r"^a folder contains a name that cannot be listed, near 'b'$"):
        entries(server(), f"file:{tmp_path}")


def test_lines_of_texts_that_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("one\n\ntwo\n")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"three\n"))
    assert list(lines(server(), f"file:{tmp_path}/a b")) == ["one", "", "two"]
    assert list(lines(server(), f"file:{tmp_path}/c.gz")) == ["three"]
    with pytest.raises(ServerError, match="Command failed"):
        list(lines(server(), f"file:{tmp_path}/nowhere"))


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("s3a://b/k=1/part-0_1.x", "s3a://b/k=1/part-0_1.x"),
        ("a b", "a[\\x20]b"),
        ("[*?{}\\]", "[\\x5b][\\x2a][\\x3f][\\x7b][\\x7d][\\x5c][\\x5d]"),
        ("'\";$", "[\\x27][\\x22][\\x3b][\\x24]"),
        ("日é", "日é"),
        ("", ""),
    ],
)
def test_a_glob_matches_one_path(path: str, written: str) -> None:
    assert glob(path) == written
