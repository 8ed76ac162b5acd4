"""Files that are written where others can write too: no link that they put there is followed."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.index import generation
from hive_bitmap.core.stores import Access

# Version 2 of Linux: user, user 1234, group, mask and others rwx; each entry is a tag, permissions, and an id.
ALL_FOR_1234 = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, 7, 1234 if tag == 2 else 2**32 - 1) for tag in (1, 2, 4, 16, 32)
)


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


@pytest.mark.parametrize("access", [None, Access(0o755, os.getgid())])
@pytest.mark.parametrize("by", ["link", "folder"])
def test_a_new_folder_is_made_or_refused(tmp_path: Path, secret: Path, access: Access | None, by: str) -> None:
    path = tmp_path / "shared" / "generation"
    path.symlink_to(secret.parent) if by == "link" else path.mkdir()
    before = secret.parent.stat().st_mode
    with pytest.raises(FileExistsError, match="already existed, so somebody else may write into it"):
        stores.make_new_folder(f"file:{path}", access)
    assert secret.parent.stat().st_mode == before


def test_nobody_writes_in_a_new_folder_who_may_not_write_above_it(tmp_path: Path) -> None:
    """Also with a mask that would let everybody; in a sticky folder, where all may add files, only the owner."""
    before = os.umask(0)
    try:
        for above, made in ((0o755, 0o755), (0o777, 0o777), (0o775, 0o775), (0o1777, 0o755), (0o1770, 0o755)):
            folder = tmp_path / oct(above)
            folder.mkdir()
            folder.chmod(above)
            stores.make_folder(f"file:{folder}/a/b")
            stores.make_new_folder(f"file:{folder}/c")
            stores.make_new_folder(f"file:{folder}/d", Access(0o750, os.getgid()))
            modes = [oct((folder / name).stat().st_mode & 0o7777) for name in ("a", "a/b", "c", "d")]
            assert modes == [oct(made)] * 3 + ["0o750"]
    finally:
        os.umask(before)


if hasattr(os, "setxattr"):  # access control lists of Linux

    def test_in_place_of_a_sticky_folder_a_list_lets_nobody_else_write(tmp_path: Path) -> None:
        base = tmp_path / "base"
        base.mkdir()
        for name in ("system.posix_acl_access", "system.posix_acl_default"):
            os.setxattr(base, name, ALL_FOR_1234)
        base.chmod(0o1777)
        [access] = generation.accesses([(f"file:{base}", f"file:{tmp_path}")])
        stores.make_new_folder(f"file:{tmp_path}/made", access)
        assert (tmp_path / "made").stat().st_mode & 0o7777 == 0o755  # the group's bits are the mask of the list
        assert "system.posix_acl_default" not in os.listxattr(tmp_path / "made")
        assert os.listxattr(tmp_path / "made") == ["system.posix_acl_access"]


def access_of_folder(base: Path, root: Path) -> Access:
    [access] = generation.accesses([(f"file:{base}", f"file:{root}")])
    assert access is not None
    return access


@pytest.mark.parametrize(
    ("table", "partition", "made"),
    [(0o700, 0o755, 0o700), (0o750, 0o755, 0o750), (0o711, 0o755, 0o755), (0o755, 0o750, 0o750), (0o701, 0o755, 0o705)],
)
def test_who_may_not_enter_a_folder_above_may_not_enter_the_new_one(
    tmp_path: Path, table: int, partition: int, made: int
) -> None:
    (tmp_path / "db" / "t" / "p=1").mkdir(parents=True)
    (tmp_path / "db").chmod(0o700)  # above the root, too
    (tmp_path / "db" / "t" / "p=1").chmod(partition)
    (tmp_path / "db" / "t").chmod(table)
    assert oct(access_of_folder(tmp_path / "db" / "t" / "p=1", tmp_path / "db" / "i").mode) == oct(made)
    assert access_of_folder(tmp_path / "db" / "t" / "p=1", tmp_path / "i").mode & 0o077 == 0
    (tmp_path / "link").symlink_to(tmp_path / "db" / "t" / "p=1")  # another way in does not open the index
    assert access_of_folder(tmp_path / "link", tmp_path / "i").mode & 0o077 == 0


def test_a_folder_that_is_gone_or_elsewhere_has_no_access(tmp_path: Path) -> None:
    pairs = [(f"file:{tmp_path}/gone", f"file:{tmp_path}/i"), ("s3a://bucket/t", f"file:{tmp_path}/i")]
    assert generation.accesses(pairs) == [None, None]


def test_of_another_group_or_list_only_folders_that_all_may_enter_let_others_in() -> None:
    folder, listed = Access(0o755, 1), Access(0o755, 1, ("a",), ("b",))
    assert folder.within([Access(0o711, 2)]) == folder and listed.within([Access(0o711, 2)]) == listed
    for outer in (Access(0o710, 2), Access(0o701, 2), Access(0o755, 1, ("a",))):
        assert folder.within([outer]) == Access(0o700, 1)
    assert listed.within([Access(0o750, 1, ("a",))]) == Access(0o750, 1, ("a",), ("b",))
    assert listed.within([Access(0o705, 1, ("a",))]) == Access(0o705, 1)
    assert folder.within([]) == folder
