"""The cache folder beside others' files and against other users: it removes and believes only its own entries."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hive_bitmap.core.stores import file_cache
from hive_bitmap.core.stores.options import Options

CONTENT = b"a shard" * 1000


def options(folder: Path, megabytes: int = 1024) -> Options:
    return Options.of({"hive_bitmap.stores.cache_folder": str(folder), "hive_bitmap.stores.cache_size": str(megabytes)})


def entries(folder: Path) -> Path:
    return Path(file_cache.folder_in(str(folder)))


@pytest.fixture(autouse=True)
def _warnings_are_new() -> None:
    file_cache._refused.clear()


def test_shrinking_removes_no_file_but_its_own_entries(tmp_path: Path) -> None:
    """Neither beside the entries nor among them, however old and large the others are."""
    file_cache.put(options(tmp_path), "first", CONTENT)
    others = [tmp_path / "thesis.pdf", entries(tmp_path) / "thesis.pdf", entries(tmp_path) / "x.piece"]
    for other in others:
        other.write_bytes(bytes(2 << 20))
        os.utime(other, (0, 0))
    (entries(tmp_path) / "folder.piece").mkdir()
    for number in range(8):
        file_cache.put(options(tmp_path, 1), str(number), bytes(1 << 18))
    file_cache.shrink(options(tmp_path), 1)
    assert all(other.stat().st_size == 2 << 20 for other in others)
    assert sorted(path.name for path in entries(tmp_path).iterdir()) == ["folder.piece", "thesis.pdf", "x.piece"]


@pytest.mark.parametrize("harm", ["mode", "group", "link", "file", "owner"])
def test_a_folder_that_others_own_or_can_write_is_not_used(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "cache"
    file_cache.put(options(cache), "key", CONTENT)
    own = entries(cache)
    if harm == "owner" and os.getuid():
        harm = "mode"  # only root gives folders away
    match harm:
        case "mode":
            own.chmod(0o777)
        case "group":
            own.chmod(0o770)
        case "link":
            own.rename(tmp_path / "elsewhere")
            own.symlink_to(tmp_path / "elsewhere")
        case "file":
            own.rename(tmp_path / "elsewhere")
            own.write_bytes(b"")
        case "owner":
            os.chown(own, 65534, 65534)
    before = sorted(tmp_path.rglob("*"))
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        assert file_cache.get(options(cache), "key") is None
        file_cache.put(options(cache), "other", CONTENT)
    assert sorted(tmp_path.rglob("*")) == before
    assert len(caplog.records) == 1 and "index files are cached in memory only" in caplog.text


def test_a_folder_that_everybody_can_write_holds_one_that_only_this_user_can(tmp_path: Path) -> None:
    """As in /tmp: what others put there is neither believed nor removed."""
    tmp_path.chmod(0o1777)
    planted = tmp_path / file_cache._name("key")
    planted.write_bytes(b"".join(file_cache._header("key", b"evil")) + b"evil")
    assert file_cache.get(options(tmp_path), "key") is None
    file_cache.put(options(tmp_path), "key", CONTENT)
    assert file_cache.get(options(tmp_path), "key") == CONTENT
    assert entries(tmp_path).stat().st_mode & 0o777 == 0o700 and planted.exists()


def _swap(entry: Path) -> None:
    entry.write_bytes(b"".join(file_cache._header("other", CONTENT)) + CONTENT)


def _link(entry: Path) -> None:
    entry.rename(entry.parent / "kept")
    entry.symlink_to(entry.parent / "kept")


@pytest.mark.parametrize(
    "harm",
    [
        lambda entry: entry.write_bytes(entry.read_bytes()[:-1]),
        lambda entry: entry.write_bytes(entry.read_bytes() + b"x"),
        lambda entry: entry.write_bytes(b""),
        lambda entry: entry.write_bytes(b"\0" * 12),
        _swap,
        _link,
    ],
    ids=["cut", "longer", "empty", "zeros", "of another key", "link"],
)
def test_an_entry_that_is_not_what_was_put_is_not_returned(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    mine = options(tmp_path)
    file_cache.put(mine, "key", CONTENT)
    harm(entries(tmp_path) / file_cache._name("key"))
    assert file_cache.get(mine, "key") is None
    file_cache.put(mine, "key", CONTENT)
    assert file_cache.get(mine, "key") == CONTENT


def test_what_killed_writers_began_goes_after_an_hour(tmp_path: Path) -> None:
    mine = options(tmp_path)
    file_cache.put(mine, "key", CONTENT)
    stem = file_cache._name("key").removesuffix(file_cache.SUFFIX)
    old, young = (entries(tmp_path) / f"{stem}.{token}.begun" for token in ("00000000", "11111111"))
    for begun in (old, young):
        begun.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    file_cache.shrink(mine, 1 << 20)
    assert not old.exists() and young.exists() and file_cache.get(mine, "key") == CONTENT
