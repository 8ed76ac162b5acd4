"""Files that are written where others can write too: no link that they put there is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hive_bitmap import stores


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of this user outside of the folder that is written to."""
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / "secret"
    path.write_text("secret")
    path.chmod(0o600)
    (tmp_path / "shared").mkdir(mode=0o777)
    return path


def unchanged(secret: Path) -> bool:
    return secret.read_text() == "secret" and secret.stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_a_file_is_replaced(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "shared" / "shard").symlink_to(secret)
    with stores.open_output(f"file:{tmp_path}/shared/shard", private=True) as sink:
        sink.write(b"rows")
    assert unchanged(secret) and not (tmp_path / "shared" / "shard").is_symlink()
    assert (tmp_path / "shared" / "shard").read_bytes() == b"rows"


def test_a_link_that_comes_while_a_file_is_written_is_not_followed(tmp_path: Path, secret: Path) -> None:
    shard = tmp_path / "shared" / "shard"
    with stores.open_output(f"file:{shard}", private=True) as sink:
        shard.unlink()
        shard.symlink_to(secret)
        sink.write(b"rows")
    assert unchanged(secret)
    access = stores.access_of([], f"file:{tmp_path}/shared")
    with pytest.raises(OSError):
        stores.set_access(f"file:{shard}", access)
    assert unchanged(secret)


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "shared" / "_manifest").symlink_to(secret.parent)
    with pytest.raises(OSError):
        stores.open_output(f"file:{tmp_path}/shared/_manifest/secret", private=True)
    assert unchanged(secret) and os.listdir(secret.parent) == ["secret"]


def test_permissions_are_not_copied_through_a_link(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "shared" / "generation").symlink_to(secret.parent)
    before = secret.parent.stat().st_mode
    with pytest.raises(OSError):
        stores.copy_permissions(f"file:{tmp_path}/shared", f"file:{tmp_path}/shared/generation")
    assert secret.parent.stat().st_mode == before
