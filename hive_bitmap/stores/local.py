"""The local file system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Sequence

import pyarrow as pa

from hive_bitmap.stores.access import Access
from hive_bitmap.stores.paths import local_path
from hive_bitmap.stores.store import FileStatus, Listing, in_order, status_and_tail

_ACLS = ("system.posix_acl_access", "system.posix_acl_default")  # attributes of Linux; folders have the second, too


class Local:
    """The local file system. Errors are OSErrors; the tag of a file is its inode number and change time (ctime)."""

    def status(self, path: str) -> FileStatus:
        try:
            found = os.stat(local_path(path))
        except NotADirectoryError as e:
            raise FileNotFoundError(errno.ENOENT, "no such file, for its folder is a file", path) from e
        if stat.S_ISDIR(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a file but a folder", path)
        return _status(path, found)

    def exists(self, path: str) -> bool:
        return os.path.exists(local_path(path))

    def listing(self, path: str) -> Listing:
        prefix = path.rstrip("/") + "/"
        files, folders = [], []
        with os.scandir(local_path(path)) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.name)
                elif (found := _entry_status(prefix, entry)) is not None:
                    files.append(found)
        return Listing(sorted(files, key=lambda file: file.path), sorted(folders))

    def status_and_tail(self, path: str) -> tuple[FileStatus, bytes]:
        return status_and_tail(self, path)

    def open_input(self, path: str, known: FileStatus | None = None) -> pa.NativeFile:
        """Open without memory mapping: if another process truncated a mapped file, SIGBUS would kill the reader."""
        return pa.OSFile(local_path(path), "rb")

    def read_range(self, path: str, start: int, size: int) -> bytes:
        with self.open_input(path) as file:
            content: bytes = file.read_at(size, start)
            return content

    def open_output(self, path: str, *, private: bool = False) -> pa.NativeFile:
        if private:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(local_path(path))  # whoever has it open, or linked it, does not see what is written now
            os.close(os.open(local_path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR))
        return pa.OSFile(local_path(path), "wb")

    def make_folder(self, path: str) -> None:
        os.makedirs(local_path(path), exist_ok=True)

    def delete_file(self, path: str) -> None:
        os.unlink(local_path(path))

    def delete_folder(self, path: str, last: Sequence[str] = ()) -> None:
        if last:
            there = self.listing(path)
            for name in there.folders:
                self.delete_folder(f"{path}/{name}")
            for name in in_order([file.path.rpartition("/")[2] for file in there.files], last):
                with contextlib.suppress(FileNotFoundError):  # another process is deleting the same folder
                    self.delete_file(f"{path}/{name}")
        shutil.rmtree(local_path(path))

    def copy(self, source: str, target: str) -> bool:
        """Make a hard link if the file system supports them, else a copy."""
        try:
            os.link(local_path(source), local_path(target))
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            self.open_output(target, private=True).close()
            shutil.copyfile(local_path(source), local_path(target))
            self.set_access(target, self.access(source))
        return True

    def access(self, path: str) -> Access:
        found = os.stat(local_path(path))
        acls = [(name, _attribute(path, name)) for name in _ACLS]
        return Access(stat.S_IMODE(found.st_mode), found.st_gid, tuple(acl for acl in acls if acl[1]))

    def set_access(self, path: str, access: Access) -> None:
        """Set group, access control lists (of Linux) and mode, in the order in which nobody can read too early."""
        name, is_folder = local_path(path), os.path.isdir(local_path(path))
        os.chmod(name, stat.S_IMODE(os.stat(name).st_mode) & stat.S_IRWXU)
        if os.stat(name).st_gid != access.group:
            try:
                os.chown(name, -1, int(access.group))
            except PermissionError:  # this user is not in that group
                access = access.without_group
        wanted = dict(access.acl)
        for attribute in _ACLS if is_folder else _ACLS[:1]:
            if attribute in wanted:
                os.setxattr(name, attribute, wanted[attribute])
            elif _attribute(path, attribute):
                os.removexattr(name, attribute)
        os.chmod(name, access.mode)

    def remove_empty_folders(self, path: str, root: str) -> None:
        while path.startswith(root):
            try:
                os.rmdir(local_path(path))
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return
                raise
            path = path.rpartition("/")[0]


def _attribute(path: str, name: str) -> bytes:
    """Return an extended attribute of a file; empty if it has none, or if the system has no such attributes."""
    if not hasattr(os, "getxattr"):
        return b""
    try:
        return os.getxattr(local_path(path), name)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            raise
        return b""


def _status(path: str, found: os.stat_result) -> FileStatus:
    return FileStatus(path, found.st_size, found.st_mtime_ns // 1_000_000, f"{found.st_ino}-{found.st_ctime_ns}")


def _entry_status(prefix: str, entry: os.DirEntry[str]) -> FileStatus | None:
    """Return the status of an entry of a folder; None if it is not a file or no longer exists."""
    try:
        return _status(prefix + entry.name, entry.stat()) if entry.is_file() else None
    except FileNotFoundError:
        return None
