"""The local file system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Sequence

import pyarrow as pa

from hive_bitmap.stores.paths import local_path
from hive_bitmap.stores.store import FileStatus, Listing, in_order, status_and_tail


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

    def open_output(self, path: str) -> pa.NativeFile:
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
            shutil.copyfile(local_path(source), local_path(target))
        return True

    def copy_permissions(self, source: str, target: str) -> None:
        """Copy the mode and, if this user is allowed to, the group."""
        wanted = os.stat(local_path(source))
        os.chmod(local_path(target), stat.S_IMODE(wanted.st_mode))
        if os.stat(local_path(target)).st_gid != wanted.st_gid:
            with contextlib.suppress(PermissionError):
                os.chown(local_path(target), -1, wanted.st_gid)

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


def _status(path: str, found: os.stat_result) -> FileStatus:
    return FileStatus(path, found.st_size, found.st_mtime_ns // 1_000_000, f"{found.st_ino}-{found.st_ctime_ns}")


def _entry_status(prefix: str, entry: os.DirEntry[str]) -> FileStatus | None:
    """Return the status of an entry of a folder; None if it is not a file or no longer exists."""
    try:
        return _status(prefix + entry.name, entry.stat()) if entry.is_file() else None
    except FileNotFoundError:
        return None
