"""Files by Hadoop path strings: names that a URL parser would mangle, and what `os` says of the same files."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from hive_bitmap.core import stores
from hive_bitmap.errors import Unsupported

NAMES = ["a b", "k=a%20b", "é😀", "x,y", "#1", "why?", "*", "[ab]", "{a,b}", "a:b", "back\\slash", "new\nline", "'\""]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_written_and_read_back(tmp_path: Path, name: str) -> None:
    path = f"file:{tmp_path}/{name}"
    with stores.open_output(path) as file:
        file.write(name.encode())
    assert (tmp_path / name).read_bytes() == name.encode()
    with stores.open_input(path) as file:
        assert file.read() == name.encode()
    assert [found.path for found in stores.listing(f"file:{tmp_path}").files] == [path]
    assert stores.listing(f"file:{tmp_path}/").files == [stores.status(path)]


def test_status_is_what_the_operating_system_says(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    os.utime(tmp_path / "f", ns=(0, 1_700_000_000_999_999_999))
    found = stores.status(f"file:{tmp_path}/f")
    stat = os.stat(tmp_path / "f")
    assert (found.size, found.mtime_ms, found.etag) == (5, 1_700_000_000_999, f"{stat.st_ino}-{stat.st_ctime_ns}")


def test_listing_has_files_only_sorted_and_not_those_below(tmp_path: Path) -> None:
    for name in ("b", "a", "sub/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [file.path for file in stores.listing(f"file:{tmp_path}").files] == [
        f"file:{tmp_path}/a",
        f"file:{tmp_path}/b",
    ]


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    missing = f"file:{tmp_path}/none"
    assert not stores.exists(missing)
    for act in (stores.status, stores.open_input, stores.listing, stores.status_and_crc):
        with pytest.raises(FileNotFoundError):
            act(missing)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert stores.exists(f"file:{tmp_path}")
    with pytest.raises(FileNotFoundError):
        stores.status(f"file:{tmp_path}")


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_the_crc_is_of_the_last_64_kib(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "f").write_bytes(content)
    path = f"file:{tmp_path}/f"
    assert stores.status_and_crc(path) == (stores.status(path), zlib.crc32(content[-65_536:]))


def test_link_or_copy_keeps_the_bytes_when_the_source_goes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    stores.link_or_copy(f"file:{tmp_path}/f", f"file:{tmp_path}/g")
    (tmp_path / "f").unlink()
    assert (tmp_path / "g").read_bytes() == b"abc"


def test_folders_are_made_with_parents_and_removed_only_empty(tmp_path: Path) -> None:
    root, folder = f"file:{tmp_path}/a", f"file:{tmp_path}/a/b c"
    stores.make_folder(folder)
    stores.make_folder(folder)
    for name in ("f", "g"):
        stores.open_output(f"{folder}/{name}").close()
    assert stores.listing(root).folders == ["b c"]
    stores.delete_files(folder, ["f", "none"], root)
    stores.remove_folder(folder, root)
    assert stores.listing(folder).names == ["g"]
    stores.delete_files(folder, ["g"], root)
    for path in (folder, root, root):
        stores.remove_folder(path, root)
    assert not (tmp_path / "a").exists()


def test_no_link_below_the_root_is_followed_to_delete(tmp_path: Path) -> None:
    """The root itself may be one, or lie behind one."""
    (tmp_path / "victim" / "empty").mkdir(parents=True)
    (tmp_path / "victim" / "f").touch()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "g").touch()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "victim")
    (tmp_path / "root").symlink_to(tmp_path / "a")
    root = f"file:{tmp_path}/root"
    assert stores.listing(root).others == {"link"}
    for act in (
        lambda: stores.delete_files(f"{root}/link", ["f"], root),
        lambda: stores.remove_folder(f"{root}/link/empty", root),
        lambda: stores.remove_folder(f"{root}/link", root),
    ):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            act()
    assert sorted(os.listdir(tmp_path / "victim")) == ["empty", "f"]
    stores.delete_files(root, ["g", "link"], root)
    assert os.listdir(tmp_path / "a") == [] and sorted(os.listdir(tmp_path / "victim")) == ["empty", "f"]


def test_small_files_are_replaced_whole_and_read_without_following_links(tmp_path: Path) -> None:
    path = f"file:{tmp_path}/f"
    (tmp_path / "victim").write_bytes(b"precious")
    for make in (os.symlink, os.link):
        make(tmp_path / "victim", tmp_path / "f")
        if make is os.symlink:
            with pytest.raises(OSError, match="symbolic links"):
                stores.read_whole(path, 100)
        stores.replace_file(path, b"content")
        assert stores.read_whole(path, 100) == b"content" and (tmp_path / "victim").read_bytes() == b"precious"
        (tmp_path / "f").unlink()
    (tmp_path / "large").write_bytes(bytes(101))
    os.mkfifo(tmp_path / "pipe")
    for name in ("large", "pipe"):
        with pytest.raises(OSError, match="not a file of at most 100 bytes"):
            stores.read_whole(f"file:{tmp_path}/{name}", 100)
    with pytest.raises(FileNotFoundError):
        stores.read_whole(f"file:{tmp_path}/none", 100)
    assert sorted(os.listdir(tmp_path)) == ["large", "pipe", "victim"]


def test_other_schemes_are_refused_by_name(tmp_path: Path) -> None:
    assert not stores.is_local("hdfs://nn:8020/x")
    with pytest.raises(Unsupported, match="'ftp'"):
        stores.status("ftp://host/x")
    with pytest.raises(Unsupported, match="absolute"):
        stores.status("relative/path")
