"""Tests of fingerprints: a replaced file of equal size and time is recognised, even if clocks are wrong."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.stores import local
from hive_bitmap.errors import Undecodable

OLD, NEW = b"a" * 100, b"b" * 100


def in_place(path: Path) -> None:
    path.write_bytes(NEW)


def by_rename(path: Path) -> None:
    path.with_name(".new").write_bytes(NEW)
    path.with_name(".new").replace(path)


def by_copy_and_back(path: Path) -> None:
    by_rename(path)
    path.with_name(".old").write_bytes(OLD)
    path.with_name(".old").replace(path)


@pytest.mark.parametrize("change", [in_place, by_rename, by_copy_and_back])
@pytest.mark.parametrize("shift", [0, -3600, 3600])
def test_a_replaced_file_is_never_the_same_though_size_and_time_are(
    tmp_path: Path, change: Callable[[Path], None], shift: int
) -> None:
    """The clock may be wrong by an hour: `utime` does not set the inode's time of change."""
    path = tmp_path / "f"
    path.write_bytes(OLD)
    at = time.time_ns() + shift * 10**9
    os.utime(path, ns=(at, at))
    taken = fingerprint.take(f"file:{path}")
    change(path)
    os.utime(path, ns=(at, at))
    status = stores.status(f"file:{path}")
    assert (status.size, status.mtime_ms) == (taken.size, taken.mtime_ms)
    assert not taken.matches(status) and not taken.confirmed()
    [listed] = [file for file in stores.listing(f"file:{tmp_path}").files if file.path.endswith("/f")]
    assert not taken.matches(listed)


def test_an_untouched_file_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(OLD)
    taken = fingerprint.take(f"file:{path}")
    assert taken.matches(stores.status(f"file:{path}")) and taken.confirmed()


def test_a_store_without_tags_is_asked_for_the_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with other content passes by size and time, but not by its last bytes."""
    path = tmp_path / "f"
    path.write_bytes(OLD)
    taken = replace(fingerprint.take(f"file:{path}"), etag="")
    tagged = local._status
    monkeypatch.setattr(local, "_status", lambda path, found: replace(tagged(path, found), etag=""))
    before = path.stat().st_mtime_ns
    assert taken.confirmed()
    by_rename(path)
    os.utime(path, ns=(before, before))
    assert taken.matches(stores.status(f"file:{path}")) and not taken.confirmed()


def test_rewrites_in_quick_succession_have_fingerprints_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "f"
    found = []
    for number in range(20):
        path.write_bytes(bytes([number]) * 100)
        found.append(fingerprint.take(f"file:{path}"))
        os.utime(path, ns=(10**18, 10**18))
    assert len({(one.size, one.etag) for one in found}) == len(found)


def test_a_file_from_the_future_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(OLD)
    monkeypatch.setattr(fingerprint.time, "time", lambda now=time.time: now() - 10)
    with pytest.raises(Undecodable, match="ahead of this machine's clock"):
        fingerprint.take(f"file:{path}")


@pytest.mark.parametrize(
    ("tag", "age", "waits"),
    [
        ("1-1700000000123000000", 0.0, 0.05),  # the store has tags, and tells fractions of a second
        ("1-1700000000123000000", 0.06, 0.0),
        ("1-1700000000000000000", 0.0, 2.0),  # its times are whole seconds
        ("1-1700000000000000000", 1.5, 0.5),
        ("1-1700000000000000000", 2.1, 0.0),
        ("1-1700000000123000000", -1.9, 1.95),  # changed by a clock that is a little ahead
    ],
)
def test_a_file_is_left_to_rest_until_a_change_must_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, age: float, waits: float
) -> None:
    """The clock stands `age` seconds after the last change, and sleeping moves it; the file changes meanwhile."""
    path = tmp_path / "f"
    path.write_bytes(OLD)
    changed = int(tag.rpartition("-")[2]) / 10**9
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        path.write_bytes(NEW)

    tagged = local._status
    monkeypatch.setattr(local, "_status", lambda path, found: replace(tagged(path, found), etag=tag))
    monkeypatch.setattr(fingerprint, "time", SimpleNamespace(time=lambda: changed + age, sleep=sleep))
    taken = fingerprint.take(f"file:{path}")
    assert sum(slept) == pytest.approx(waits, abs=1e-6)
    assert taken.tail_crc32 == zlib.crc32(NEW if slept else OLD)  # what is fingerprinted is what is there then


def test_a_fingerprint_without_the_tag_of_its_store_matches_no_file(tmp_path: Path) -> None:
    """Size, time and the end of a file are known to whoever may read it, and easily written in a manifest."""
    path = tmp_path / "f"
    path.write_bytes(OLD)
    forged = replace(fingerprint.take(f"file:{path}"), etag="")
    assert not forged.matches(stores.status(f"file:{path}")) and not forged.confirmed()
    assert forged.matches(replace(stores.status(f"file:{path}"), etag=""))  # a listing that shows no tags
