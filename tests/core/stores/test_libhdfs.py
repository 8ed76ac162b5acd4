"""The client over libhdfs, by what pyarrow's file systems have in common: here one of a local folder is in its place.

What only libhdfs does, to find a cluster and to speak to it, is for the servers of tests/stores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from hive_bitmap.core.stores import FileStatus, Listing, requests
from hive_bitmap.core.stores.access import Access
from hive_bitmap.core.stores.libhdfs import ADVICE, LibHdfs, open_cluster
from hive_bitmap.core.stores.options import Options
from hive_bitmap.errors import StoreError

ROOT = "hdfs://nn:8020"


@pytest.fixture
def store(tmp_path: Path) -> LibHdfs:
    return LibHdfs(pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()))


def test_what_is_written_is_read_under_its_full_path(store: LibHdfs, tmp_path: Path) -> None:
    store.make_folder(f"{ROOT}/a/b c")
    store.replace_file(f"{ROOT}/a/b c/f%20", b"content")
    assert (tmp_path / "a" / "b c" / "f%20").read_bytes() == b"content"
    found = store.status(f"{ROOT}/a/b c/f%20")
    changed = (tmp_path / "a" / "b c" / "f%20").stat().st_mtime_ns // 1_000_000
    assert found == FileStatus(f"{ROOT}/a/b c/f%20", 7, changed, "")
    assert store.status_and_tail(found.path) == (found, b"content")
    assert store.read_range(found.path, 3, 2) == b"te"
    assert store.read_whole(found.path, 7) == b"content"
    with pytest.raises(OSError, match="it has 7 bytes, more than 6"):
        store.read_whole(found.path, 6)


def test_only_the_tail_of_a_long_file(store: LibHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.core.stores.store.TAIL_BYTES", 4)
    store.replace_file(f"{ROOT}/f", b"0123456789")
    assert store.status_and_tail(f"{ROOT}/f")[1] == b"6789"


@pytest.mark.parametrize("folder", [ROOT + "/d", ROOT + "/d/"])
def test_the_content_of_a_folder_is_sorted_and_not_that_of_its_folders(
    store: LibHdfs, tmp_path: Path, folder: str
) -> None:
    for name in ("z/inner", "b", "a", "y/inner"):
        path = tmp_path / "d" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    found = store.listing(folder)
    assert [(file.path, file.size) for file in found.files] == [(f"{ROOT}/d/a", 1), (f"{ROOT}/d/b", 1)]
    assert (found.folders, found.names) == (["y", "z"], ["a", "b", "y", "z"])


def test_what_is_not_there(store: LibHdfs) -> None:
    store.make_folder(f"{ROOT}/d")
    assert store.exists(f"{ROOT}/d") and not store.exists(f"{ROOT}/gone")
    for path in (f"{ROOT}/gone", f"{ROOT}/d"):  # a folder is no file
        with pytest.raises(FileNotFoundError) as raised:
            store.status(path)
        assert str(raised.value) == f"no such file: {path}"
    with pytest.raises(FileNotFoundError):
        store.listing(f"{ROOT}/gone")
    with pytest.raises(FileNotFoundError):
        store.open_input(f"{ROOT}/gone", None)
    with pytest.raises(FileNotFoundError):
        store.delete_file(f"{ROOT}/gone")
    assert store.listing(f"{ROOT}/d") == Listing([], [])


def test_a_new_folder_must_be_new(store: LibHdfs) -> None:
    store.make_new_folder(f"{ROOT}/new", None)
    for made in (None, Access(0o700, "g")):
        with pytest.raises(FileExistsError, match=f"folder {ROOT}/new already existed"):
            store.make_new_folder(f"{ROOT}/new", made)


def test_files_that_are_gone_are_deleted_and_folders_that_are_not_empty_stay(store: LibHdfs) -> None:
    store.make_folder(f"{ROOT}/d/sub")
    for name in "abc":
        store.replace_file(f"{ROOT}/d/{name}", b"")
    store.delete_files(f"{ROOT}/d", ["a", "gone", "b"], ROOT)
    assert store.listing(f"{ROOT}/d").names == ["c", "sub"]
    store.remove_folder(f"{ROOT}/d", ROOT)
    store.remove_folder(f"{ROOT}/d/sub", ROOT)
    store.remove_folder(f"{ROOT}/gone", ROOT)
    assert store.listing(f"{ROOT}/d").names == ["c"]


def test_neither_links_nor_permissions(store: LibHdfs, tmp_path: Path) -> None:
    store.replace_file(f"{ROOT}/f", b"x")
    before = (tmp_path / "f").stat().st_mode
    assert store.copy(f"{ROOT}/f", f"{ROOT}/g") is False and not store.exists(f"{ROOT}/g")
    store.set_access(f"{ROOT}/f", Access(0o777, "g"))
    assert (tmp_path / "f").stat().st_mode == before
    assert store.access(f"{ROOT}/f") is None  # type: ignore[func-returns-value]


def test_requests_are_counted_by_what_they_do(store: LibHdfs) -> None:
    for do, counted in (
        (lambda: store.make_folder(f"{ROOT}/d"), {"other": 1}),
        (lambda: store.replace_file(f"{ROOT}/d/f", b"x"), {"write": 1}),
        (lambda: store.listing(f"{ROOT}/d"), {"list": 1}),
        (lambda: store.read_range(f"{ROOT}/d/f", 0, 1), {"read": 2}),
        (lambda: store.remove_folder(f"{ROOT}/d", ROOT), {"list": 1}),
        (lambda: store.delete_file(f"{ROOT}/d/f"), {"delete": 1}),
        (lambda: store.remove_folder(f"{ROOT}/d", ROOT), {"list": 1, "delete": 1}),
        (lambda: store.exists(f"{ROOT}/d"), {"status": 1}),
    ):
        with requests.measured() as measured:
            do()
        assert measured.requests.by_kind == counted


class Down:
    """A file system that fails in every request."""

    def __getattr__(self, name: str) -> Any:
        def request(*given: Any, **named: Any) -> Any:
            raise OSError(f"{name} failed\n\tat org.apache.hadoop")

        return request


def test_a_cluster_that_fails_is_told_with_what_to_check() -> None:
    store = LibHdfs(Down())
    for do, name in (
        (lambda: store.exists(f"{ROOT}/f"), "get_file_info"),
        (lambda: store.listing(f"{ROOT}/f"), "get_file_info"),
        (lambda: store.open_input(f"{ROOT}/f", None), "open_input_file"),
        (lambda: store.read_whole(f"{ROOT}/f", 1), "open_input_file"),
        (lambda: store.open_output(f"{ROOT}/f"), "open_output_stream"),
        (lambda: store.make_folder(f"{ROOT}/f"), "create_dir"),
        (lambda: store.delete_files(ROOT, ["f"], ROOT), "delete_file"),
    ):
        with pytest.raises(StoreError) as raised:
            do()
        assert str(raised.value) == f"the store of {ROOT}/f fails: {name} failed ({ADVICE})"


def test_a_cluster_without_libhdfs_is_told_with_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(uri: str) -> Any:
        raise OSError(f"Unable to load libhdfs for {uri}")

    monkeypatch.setattr(pafs, "HadoopFileSystem", type("", (), {"from_uri": staticmethod(no_library)}))
    for authority, uri in (("nn:8020", "hdfs://nn:8020"), ("", "hdfs://default")):
        with pytest.raises(StoreError) as raised:
            open_cluster(Options(), "hdfs", authority)
        assert str(raised.value) == (
            f"the store of hdfs://{authority}/ fails: Unable to load libhdfs for {uri} ({ADVICE})"
        )
