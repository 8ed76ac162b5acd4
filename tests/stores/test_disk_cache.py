"""The cache folder: what is in it is what the store has, whatever happens to it; and it takes no more than it may."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.stores import file_cache, requests, speed
from hive_bitmap.core.stores.options import Options
from tests.stores.conftest import BUCKET, S3, reached

pytestmark = pytest.mark.stores
CONTENT = os.urandom(5 << 20)


def options(folder: Path, megabytes: int = 1024) -> Options:
    return Options.of({"hive_bitmap.stores.cache_folder": str(folder), "hive_bitmap.stores.cache_size": str(megabytes)})


def entries(folder: Path) -> Path:
    return Path(file_cache.folder_in(str(folder)))


@pytest.fixture
def shard(s3: S3, tmp_path: Path) -> Iterator[str]:
    """An object, reached with a cache folder."""
    path = f"s3a://{BUCKET}/{uuid4().hex}/shard"
    with reached({**s3.settings, "hive_bitmap.stores.cache_folder": str(tmp_path / "cache")}):
        with stores.open_output(path) as sink:
            sink.write(CONTENT)
        yield path


def read(path: str) -> tuple[bytes, int]:
    """What another process reads, and how many requests it makes."""
    file_cache.forget()
    with requests.measured() as measured, stores.open_immutable(path, len(CONTENT)) as file:
        content = file.read()
    return content, measured.requests.total


def test_another_process_asks_the_store_for_nothing(shard: str, tmp_path: Path) -> None:
    assert read(shard) == (CONTENT, 1)
    assert read(shard) == (CONTENT, 0)
    assert stores.read_immutable(shard) == CONTENT
    with requests.measured() as measured:
        assert stores.read_immutable(shard) == CONTENT
    assert measured.requests.total == 0
    assert entries(tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in entries(tmp_path / "cache").iterdir()} == {0o600}


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "gone"])
def test_a_damaged_piece_is_read_anew(shard: str, tmp_path: Path, harm: str) -> None:
    assert read(shard) == (CONTENT, 1)
    for piece in entries(tmp_path / "cache").iterdir():
        content = piece.read_bytes()
        changed = content[:50] + bytes([content[50] ^ 1]) + content[51:]
        piece.write_bytes({"cut": content[:-1], "changed": changed, "empty": b"", "gone": b""}[harm])
        if harm == "gone":
            piece.unlink()
    assert read(shard) == (CONTENT, 1)
    assert read(shard) == (CONTENT, 0)


def test_the_folder_is_bounded_and_what_was_used_last_stays(tmp_path: Path) -> None:
    mine = options(tmp_path, 4)
    for number in range(40):
        file_cache.put(mine, str(number), bytes(1 << 18))
        assert file_cache.get(mine, "0") is not None  # is used all the time
        for piece in entries(tmp_path).iterdir():  # a coarse clock would not tell them apart
            os.utime(piece, ns=(piece.stat().st_atime_ns, piece.stat().st_mtime_ns - 10_000_000))
    total = sum(piece.stat().st_size for piece in entries(tmp_path).iterdir())
    assert total <= 5 << 20
    assert file_cache.get(mine, "39") is not None and file_cache.get(mine, "1") is None


def test_many_write_and_shrink_at_the_same_time(tmp_path: Path) -> None:
    def work(number: int) -> bool:
        mine, what = options(tmp_path, 1), str(number % 20)
        file_cache.put(mine, what, what.encode() * 50_000)
        file_cache.shrink(mine, 1 << 19)
        found = file_cache.get(mine, what)
        return found in (None, what.encode() * 50_000)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))
    assert all(file.suffix == file_cache.SUFFIX for file in entries(tmp_path).iterdir())


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    mine = options(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING, logger="hive_bitmap"):
        file_cache.put(mine, "one", b"1")
        file_cache.put(mine, "two", b"2")
    assert file_cache.get(mine, "one") is None
    assert len(caplog.records) == 1 and "cannot be used" in caplog.text


def test_the_latency_of_a_store_is_seen_at_its_requests(s3: S3) -> None:
    with reached(s3.settings):
        speed.forget()
        s3.proxy.delay = 0.1
        s3.proxy.seen.clear()
        try:
            path = f"s3a://{BUCKET}/nothing"
            assert speed.of(path) is None
            assert stores.estimated_speed_of(path) == speed.USUAL and not s3.proxy.seen
            assert 0.1 <= stores.speed_of(path).request < 1
            known = len(s3.proxy.seen)
            assert 0.1 <= stores.speed_of(path).request < 1 and len(s3.proxy.seen) == known
        finally:
            s3.proxy.reset()
            speed.forget()
    assert stores.speed_of("file:/tmp/x") == stores.Speed()
