"""Access the local file system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex

import pyarrow as pa

from hive_bitmap.core.stores.access import SHARED_WRITE, STICKY, Access
from hive_bitmap.core.stores.paths import local_path, parent
from hive_bitmap.core.stores.store import BEGUN, FileStatus, Listing, made_by_another, status_and_tail

# Errors for folders that cannot be removed: not empty, a mount, or in a folder that this user must not change.
_STAYS = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.EACCES, errno.EPERM, errno.EROFS)

# Extended attributes with access control lists on Linux; only folders have the second attribute.
_ACL, _DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"


class Local:
    """The local file system.

    Errors are OSErrors. The etag of a file consists of its inode number and its change time (ctime).
    """

    def status(self, path: str) -> FileStatus:
        try:
            info = os.stat(local_path(path))
        except NotADirectoryError as e:
            raise FileNotFoundError(errno.ENOENT, "no such file, for its folder is a file", path) from e
        if stat.S_ISDIR(info.st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a file but a folder", path)
        return _status(path, info)

    def exists(self, path: str) -> bool:
        return os.path.exists(local_path(path))

    def listing(self, path: str) -> Listing:
        prefix = path.rstrip("/") + "/"
        files, folders, special = [], [], set()
        with os.scandir(local_path(path)) as entries:
            for entry in entries:
                if entry.is_symlink():
                    special.add(entry.name)
                if _is(entry.is_dir):
                    folders.append(entry.name)
                elif not _is(entry.is_file):
                    special.add(entry.name)
                elif (status := _entry_status(prefix, entry)) is not None:
                    files.append(status)
        return Listing(sorted(files, key=lambda file: file.path), sorted(folders), frozenset(special))

    def status_and_tail(self, path: str) -> tuple[FileStatus, bytes]:
        return status_and_tail(self, path)

    def open_input(self, path: str, listed: FileStatus | None = None) -> pa.NativeFile:
        """Open a file without memory mapping.

        The file is not mapped, because SIGBUS would kill this process if another process truncated the mapped file.
        `listed` is not used.
        """
        return pa.OSFile(local_path(path), "rb")

    def read_range(self, path: str, start: int, size: int) -> bytes:
        with self.open_input(path) as file:
            content: bytes = file.read_at(size, start)
            return content

    def open_output(self, path: str, *, private: bool = False) -> pa.NativeFile:
        return pa.PythonFile(os.fdopen(_created(path), "wb"), "w") if private else pa.OSFile(local_path(path), "wb")

    def make_folder(self, path: str) -> None:
        _make_folder(local_path(path))

    def make_new_folder(self, path: str, access: Access | None) -> None:
        try:
            os.mkdir(local_path(path), stat.S_IRWXU if access else _mode_below(os.path.dirname(local_path(path))))
        except FileExistsError as e:
            raise made_by_another(path) from e
        if access is not None:
            self.set_access(path, access)

    def delete_file(self, path: str) -> None:
        os.unlink(local_path(path))

    def read_whole(self, path: str, most: int) -> bytes:
        opened = os.open(local_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(opened, "rb") as file:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                raise OSError(errno.EINVAL, f"not a file of at most {most:,} bytes", path)
            return file.read(most)

    def replace_file(self, path: str, content: bytes) -> None:
        begun = f"{local_path(path)}.{token_hex(4)}{BEGUN}"
        try:
            opened = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with os.fdopen(opened, "wb") as file:
                file.write(content)
            os.replace(begun, local_path(path))
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(begun)
            raise

    def delete_files(self, folder: str, names: Sequence[str], root: str) -> None:
        with contextlib.suppress(FileNotFoundError), _opened_below(root, folder) as opened:
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # another process is deleting the same folder
                    os.unlink(name, dir_fd=opened)

    def remove_folder(self, path: str, root: str) -> None:
        try:
            if path == root:
                os.rmdir(local_path(path))
            else:
                with _opened_below(root, parent(path)) as opened:
                    os.rmdir(path.rpartition("/")[2], dir_fd=opened)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (_STAYS if path != root else (*_STAYS, errno.ENOTDIR)):  # the root may be a link
                raise

    def copy(self, source: str, target: str) -> bool:
        """Make `target` a hard link to `source`, or a copy of `source`.

        A copy is made where hard links are unsupported. Return True: the local file system can always do this.
        """
        try:
            os.link(local_path(source), local_path(target))
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            with open(local_path(source), "rb") as reader, os.fdopen(_created(target), "wb") as writer:
                shutil.copyfileobj(reader, writer)
            self.set_access(target, self.access(source))
        return True

    def access(self, path: str) -> Access:
        info = os.stat(local_path(path))
        acl, defaults = ((_attribute(local_path(path), name),) for name in (_ACL, _DEFAULT_ACL))
        mode = stat.S_IMODE(info.st_mode)
        return Access(mode, info.st_gid, acl if any(acl) else (), defaults if any(defaults) else ())

    def set_access(self, path: str, access: Access) -> None:
        """Set the access of a file or folder.

        The access of another user's file is not changed. Raises OSError for a link.
        """
        opened = os.open(local_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(opened).st_uid == os.geteuid():
                _set_access(opened, access)
        finally:
            os.close(opened)


def _created(path: str) -> int:
    """Create a file that only this user may read.

    Return the file descriptor, for writing. A file or link that exists is replaced. Raises OSError if the folder is a
    link. Other users may be able to write in the folder, and to replace it or its files by links. So the file is
    created in the opened folder, not under the folder's name.
    """
    folder = os.open(local_path(parent(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        name = path.rpartition("/")[2]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)  # readers of the old file, or of links to it, do not see the new content
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(name, flags, stat.S_IRUSR | stat.S_IWUSR, dir_fd=folder)
    finally:
        os.close(folder)


def _set_access(opened: int, access: Access) -> None:
    """Set group, access control lists and mode of an opened file or folder.

    Only Linux has access control lists. The order of the steps ensures that nobody can read the file before all of them
    are done.
    """
    status = os.fstat(opened)
    os.chmod(opened, stat.S_IMODE(status.st_mode) & stat.S_IRWXU)
    if status.st_gid != access.group:
        try:
            os.chown(opened, -1, int(access.group))
        except PermissionError:  # this user is not in that group
            access = access.without_group
    acls = {_ACL: access.acl, _DEFAULT_ACL: access.defaults}
    for attribute in acls if stat.S_ISDIR(status.st_mode) else [_ACL]:
        if acls[attribute]:
            os.setxattr(opened, attribute, acls[attribute][0])
        elif _attribute(opened, attribute):
            os.removexattr(opened, attribute)
    os.chmod(opened, access.mode)


def _make_folder(folder: str) -> None:
    """Make a folder and its missing parents."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    _make_folder(above)
    try:
        os.mkdir(folder, _mode_below(above))
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def _mode_below(above: str) -> int:
    """Return the mode of a new folder in `above`, before the umask."""
    mode = os.stat(above).st_mode
    return 0o755 | (0 if mode & STICKY else mode & SHARED_WRITE)


@contextmanager
def _opened_below(root: str, folder: str) -> Iterator[int]:
    """Open a folder below `root` without following links below `root`.

    Yields the file descriptor of the folder. The names of the path are opened one after another. Raises OSError if a
    name is a link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    opened = os.open(local_path(root), flags)
    try:
        for name in filter(None, folder.removeprefix(root).split("/")):
            inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


def _attribute(file: str | int, name: str) -> bytes:
    """Return an extended attribute of a file.

    Return b"" if the file or the system does not have the attribute.
    """
    if not hasattr(os, "getxattr"):
        return b""
    try:
        return os.getxattr(file, name)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            raise
        return b""


def _status(path: str, info: os.stat_result) -> FileStatus:
    return FileStatus(path, info.st_size, info.st_mtime_ns // 1_000_000, f"{info.st_ino}-{info.st_ctime_ns}")


def _is(kind: Callable[[], bool]) -> bool:
    """Call `is_dir` or `is_file` of a `DirEntry`.

    `kind` is the bound method to call. Return False for a circular link.
    """
    try:
        return kind()
    except OSError as e:
        if e.errno != errno.ELOOP:
            raise
        return False


def _entry_status(prefix: str, entry: os.DirEntry[str]) -> FileStatus | None:
    """Return the status of a file from its entry in a folder.

    `prefix` is the path of the folder with a slash at the end. Return None if the file no longer exists.
    """
    try:
        return _status(prefix + entry.name, entry.stat())
    except FileNotFoundError:
        return None
