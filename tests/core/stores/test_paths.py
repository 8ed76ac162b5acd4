"""Hadoop path strings: split, spelled in one way, and the folders above them."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core import stores
from hive_bitmap.core.stores.paths import Parts, canonical, is_local, normal, parent, parts, with_parents
from hive_bitmap.errors import Unsupported


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("file:/w/a b", Parts("file", "", "/w/a b")),
        ("file:/", Parts("file", "", "/")),
        ("file://host/w", Parts("file", "host", "/w")),
        ("file:////w", Parts("file", "", "//w")),
        ("FILE:///w", Parts("file", "", "/w")),
        ("/w/x:y", Parts("", "", "/w/x:y")),
        ("hdfs://nn:8020/x", Parts("hdfs", "nn:8020", "/x")),
        ("s3a://my.bucket/k=%2F/a?b#c", Parts("s3a", "my.bucket", "/k=%2F/a?b#c")),
        ("abfss://container@account/x", Parts("abfss", "container@account", "/x")),
        ("file:/new\nline/x", Parts("file", "", "/new\nline/x")),
        ("//host/x", Parts("", "host", "/x")),
    ],
)
def test_a_path_is_split_and_never_decoded(path: str, split: Parts) -> None:
    assert parts(path) == split
    assert is_local(path) == (split.scheme in ("", "file"))
    assert stores.local_path(path) == split.path


@pytest.mark.parametrize("path", ["", "w/x", "x", "s3a://bucket", "file:", "file:w", "1x:/w"])
def test_what_is_not_absolute_is_refused(path: str) -> None:
    with pytest.raises(Unsupported) as error:
        parts(path)
    assert str(error.value) == f"not an absolute Hadoop path: {path!r}"
    with pytest.raises(Unsupported):
        is_local(path)


PIECES = st.lists(st.sampled_from(["a", "b c", ".", "..", "", "p=1", "%2F"]), max_size=6)
TOPS = st.sampled_from(["s3a://b", "hdfs://nn:8020", "hdfs:", "file:", "FILE://localhost", ""])


@given(TOPS, PIECES)
def test_a_normal_path_is_what_posix_says_below_its_top(top: str, pieces: list[str]) -> None:
    inner = "/" + "/".join(pieces)
    while inner.startswith("//"):
        inner = inner[1:]
    clean = normal(top + inner)
    assert parts(clean).path == posixpath.normpath(inner)
    assert clean.startswith({"FILE://localhost": "file:/", "": "file:/"}.get(top, top))
    assert normal(clean) == clean


@given(st.sampled_from(["s3a://b", "hdfs://nn:8020", "file:", ""]), st.lists(st.sampled_from(["a", "b", "p=1"])))
def test_the_folders_above_a_path_end_below_the_top(top: str, pieces: list[str]) -> None:
    paths = ["/".join([top, *pieces[:end]]) for end in range(len(pieces), 0, -1)]
    assert list(with_parents("/".join([top, *pieces]) if pieces else f"{top}/")) == paths
    assert [parent(path) for path in paths] == [*paths[1:], top][: len(paths)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("s3://b/x", "S3N://B/x/", True),
        ("abfs://c@a/x", "abfss://c@a//x", True),
        ("wasb://c@a/x", "wasbs://c@a/x", True),
        ("hdfs://NN/x", "hdfs://nn:8020/./x", True),
        ("hdfs://nn:9000/x", "hdfs://nn/x", False),
        ("s3a://b/x", "s3a://b/X", False),
        ("s3a://b/x", "gs://b/x", False),
        ("s3a://b", "s3a://b/", True),
        ("s3a://b/%41", "s3a://b/A", False),
        ("file:", "file:///", True),
    ],
)
def test_spellings_of_one_folder_in_a_store(one: str, other: str, same: bool) -> None:
    assert (canonical(one) == canonical(other)) == same
    assert canonical(canonical(one)) == canonical(one)


def test_spellings_of_one_folder_have_one_canonical_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    spelled = [f"{tmp_path}/x", f"file:{tmp_path}//x/", f"file://{tmp_path}/./y/../x", f"FILE:{tmp_path}/link/x"]
    assert {stores.canonical(path) for path in spelled} == {f"file:{os.path.realpath(tmp_path)}/x"}
    with pytest.raises(Unsupported, match="names a host"):
        stores.normal("file://elsewhere/x")


@pytest.mark.parametrize(
    ("path", "local"), [("file:/w/a b", "/w/a b"), ("file:///w", "/w"), ("/w/x:y", "/w/x:y"), ("FILE:/w?a#b", "/w?a#b")]
)
def test_local_path(path: str, local: str) -> None:
    assert stores.is_local(path)
    assert stores.local_path(path) == local
