"""Access HDFS through the package hdfs-native, which needs neither Java nor libhdfs."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from threading import BoundedSemaphore
from typing import Any, TypeVar

import pyarrow as pa

from hive_bitmap.core.stores import requests, speed
from hive_bitmap.core.stores.access import OWNER, SHARED_WRITE, STICKY, Access
from hive_bitmap.core.stores.options import HDFS_USER, Options
from hive_bitmap.core.stores.paths import parent, parts
from hive_bitmap.core.stores.ranged import TAIL, Ranged
from hive_bitmap.core.stores.requests import failed, not_installed, retried
from hive_bitmap.core.stores.store import (
    AbortableWriter,
    FileStatus,
    Listing,
    made_by_another,
    read_whole,
    remove_if_empty,
    replace_file,
    status_and_tail,
)
from hive_bitmap.errors import StoreError

T = TypeVar("T")
SCHEMES = ("hdfs", "viewfs")
ADVICE = "see fs.defaultFS, dfs.* and hadoop.security.* of the session's Hadoop configuration"
# Parts of the messages of transient errors, in lower case.
_TRANSIENT = (
    "safe mode",
    "connection",
    "timed out",
    "standby",
    "retriable",
    "could not obtain block",
    "channel closed",
)
_ACLS_OFF = "dfs.namenode.acls.enabled"  # part of the error of a name node without access control lists
# With its default settings, the client would retry for minutes.
_BOUNDS = {"dfs.client.failover.sleep.base.millis": "200", "dfs.client.failover.sleep.max.millis": "2000"}


def open_cluster(options: Options, scheme: str, authority: str) -> Hdfs:
    """Open a name node or name service.

    If `authority` is "", the setting fs.defaultFS names it. Raises StoreError.
    """
    try:
        from hdfs_native import Client
    except ImportError as e:
        raise not_installed(scheme, "hdfs-native", "hdfs") from e
    default = options.get("fs.defaultFS")
    url = f"{scheme}://{authority}" if authority else default
    if not url.startswith(f"{scheme}://"):
        raise StoreError(f"{scheme}:/ without a name node is that of fs.defaultFS, which is {default or 'not set'}")
    if user := options.get(HDFS_USER):
        os.environ.setdefault("HADOOP_USER_NAME", user)  # the client takes the user name only from here
    attempts = str(options.number("attempts"))
    config = {"dfs.client.failover.max.attempts": attempts, **_BOUNDS}
    config |= options.with_prefixes("dfs.", "fs.defaultFS", "fs.viewfs.", "hadoop.security.", "hadoop.rpc.")
    try:
        return Hdfs(Client(url, config), options.number("attempts"), options.number("parallel"))
    except (RuntimeError, OSError, ValueError) as e:
        raise failed(f"{url} cannot be reached", e, ADVICE) from e


class Hdfs:
    """An HDFS cluster.

    Files have no entity tags; their modification times are in milliseconds. At most `parallel` requests of all threads
    are in flight at once.
    """

    def __init__(self, client: Any, attempts: int, parallel: int) -> None:
        self._client, self._attempts, self._slots = client, attempts, BoundedSemaphore(parallel)
        self._mode = lru_cache(maxsize=1024)(self._mode_below)
        self._has_acls = True

    def status(self, path: str) -> FileStatus:
        info = self._info(path)
        if info.isdir:
            raise FileNotFoundError(f"not a file but a folder: {path}")
        return _status(path, info)

    def exists(self, path: str) -> bool:
        try:
            self._info(path)
        except FileNotFoundError:
            return False
        return True

    def listing(self, path: str) -> Listing:
        inner, prefix = _inner(path), path.rstrip("/") + "/"
        request = speed.timed(path, lambda: list(self._client.list_status(inner)))
        entries = self._request(requests.LIST, path, request)
        if [entry.path for entry in entries if not entry.isdir] == [inner]:
            raise NotADirectoryError(f"not a folder but a file: {path}")
        named = [(entry.path.rstrip("/").rpartition("/")[2], entry) for entry in entries]
        files = [_status(prefix + name, entry) for name, entry in named if not entry.isdir]
        return Listing(sorted(files, key=lambda file: file.path), sorted(name for name, entry in named if entry.isdir))

    def status_and_tail(self, path: str) -> tuple[FileStatus, bytes]:
        return status_and_tail(self, path)

    def open_input(self, path: str, listed: FileStatus | None) -> pa.NativeFile:
        reader = self._request(requests.STATUS, path, lambda: self._client.read(_inner(path)))
        size = len(reader)
        start = max(size - TAIL, 0)
        tail = self._read(path, reader, start, size - start)
        return pa.PythonFile(Ranged(size, lambda at, length: self._read(path, reader, at, length), tail), mode="r")

    def read_range(self, path: str, start: int, size: int) -> bytes:
        reader = self._request(requests.STATUS, path, lambda: self._client.read(_inner(path)))
        if start + size > len(reader):  # here the client would panic instead of raising an error
            raise OSError(f"{path} has {len(reader)} bytes, not {start + size}")
        return self._read(path, reader, start, size)

    def open_output(self, path: str, *, private: bool = False) -> Any:
        from hdfs_native import WriteOptions

        mode = OWNER if private else self._mode(parent(path)) & 0o666
        options = WriteOptions(overwrite=True, create_parent=True, permission=mode)
        sink = self._request(requests.WRITE, path, lambda: self._client.create(_inner(path), options))
        return _Writer(self, path, sink)

    def make_folder(self, path: str) -> None:
        """Make a folder with the mode of its nearest existing parent.

        So folders in a private folder are private. If the parent is sticky, only the owner may write in the new folder.
        """
        self._make(path, self._mode(parent(path)))

    def make_new_folder(self, path: str, access: Access | None) -> None:
        """Make a folder with this access; None stands for the mode of its parent.

        A request checks first whether the folder exists, because HDFS does not report existing folders. Raises
        FileExistsError.
        """
        if self.exists(path):
            raise made_by_another(path)
        self._make(path, self._mode(parent(path)) if access is None else stat.S_IRWXU)
        if access is not None:
            self.set_access(path, access)

    def delete_file(self, path: str) -> None:
        if not self._request(requests.DELETE, path, lambda: self._client.delete(_inner(path))):
            raise FileNotFoundError(f"no such file: {path}")

    def read_whole(self, path: str, most: int) -> bytes:
        return read_whole(self, path, most)

    def replace_file(self, path: str, content: bytes) -> None:
        replace_file(self, path, content)

    def delete_files(self, folder: str, names: Sequence[str], root: str) -> None:
        for name in names:
            path = f"{folder}/{name}"
            self._request(requests.DELETE, path, partial(self._client.delete, _inner(path), False))

    def remove_folder(self, path: str, root: str) -> None:
        request = partial(self._client.delete, _inner(path), False)
        remove_if_empty(self, path, lambda: self._request(requests.DELETE, path, request))

    def copy(self, source: str, target: str) -> bool:
        """Return False: HDFS can neither copy nor link a file by itself."""
        return False

    def access(self, path: str) -> Access:
        """Return the access of a file or folder.

        This takes one request, or two if it turns out that the cluster has no access control lists.
        """
        status = self._acl(path)
        if status is None:
            status = self._info(path)
            return Access(status.permission & 0o1777, status.group)
        entries = [(entry.type, entry.scope, entry.permissions, entry.name) for entry in status.entries]
        acl, defaults = (tuple(entry for entry in entries if entry[1] == scope) for scope in ("access", "default"))
        return Access(status.permission & 0o777 | (STICKY if status.sticky else 0), status.group, acl, defaults)

    def set_access(self, path: str, access: Access) -> None:
        """Set group, access control list and mode, in this order.

        The mode comes last, so that nobody can read the file before the group and the list are right.
        """
        inner = _inner(path)
        if self._info(path).group != access.group:
            try:
                self._request(requests.OTHER, path, lambda: self._client.set_owner(inner, group=access.group))
            except StoreError:  # this user is not in that group
                access = access.without_group
        if access.acl or access.defaults:
            self._request(requests.OTHER, path, lambda: self._client.set_acl(inner, all_entries(access)))
        elif (inherited := self._acl(path)) is not None and inherited.entries:
            self._request(requests.OTHER, path, lambda: self._client.remove_acl(inner))
        self._request(requests.OTHER, path, lambda: self._client.set_permission(inner, access.mode))
        self._mode.cache_clear()

    def _acl(self, path: str) -> Any:
        """Return the access control list of a file or folder.

        The result is the client's object, which also has the group and the mode. Return None if the cluster has no
        access control lists, or if the request fails with a StoreError.
        """
        if not self._has_acls:
            return None
        try:
            return self._request(requests.OTHER, path, lambda: self._client.get_acl_status(_inner(path)))
        except StoreError as error:
            self._has_acls = _ACLS_OFF not in str(error)
            return None

    def _make(self, path: str, mode: int) -> None:
        self._request(requests.OTHER, path, lambda: self._client.mkdirs(_inner(path), mode, True))

    def _info(self, path: str) -> Any:
        request = speed.timed(path, lambda: self._client.get_file_info(_inner(path)))
        return self._request(requests.STATUS, path, request)

    def _mode_below(self, folder: str) -> int:
        """Return the mode for a new folder in `folder`.

        The mode comes from the nearest existing parent. If this parent is sticky, only the owner may write in the new
        folder.
        """
        while _inner(f"{folder}/") != "/":
            try:
                mode = int(self._info(folder).permission)
                return mode & 0o777 & ~(SHARED_WRITE if mode & STICKY else 0)
            except FileNotFoundError:
                folder = parent(folder)
        return 0o755

    def _read(self, path: str, reader: Any, start: int, size: int) -> bytes:
        if not size:
            return b""
        request = speed.timed(path, lambda: reader.read_range(start, size), size)
        content: bytes = self._request(requests.READ, path, request)
        requests.count_bytes(len(content))
        if len(content) != size:
            raise StoreError(f"the store of {path} fails: {len(content)} bytes came in place of {size}")
        return content

    def _request(self, kind: str, path: str, request: Callable[[], T]) -> T:
        requests.count(kind)
        try:
            with self._slots:
                return retried(request, is_transient, self._attempts)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"no such file: {path}") from error
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise
        except (OSError, RuntimeError, ValueError) as error:
            if "ParentNotDirectoryException" in str(error):
                raise FileNotFoundError(f"no such file: {path}") from error
            raise failed(f"the store of {path} fails", error, ADVICE) from error


class _Writer(AbortableWriter):
    def __init__(self, store: Hdfs, path: str, sink: Any) -> None:
        self._store, self._path, self._sink, self._position = store, path, sink, 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._store._request(requests.WRITE, self._path, lambda: self._sink.write(view.tobytes()))
        requests.count_bytes(0, view.nbytes)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._store._request(requests.WRITE, self._path, self._sink.close)

    def discard(self) -> None:
        """Close and delete the file, which is incomplete."""
        self.closed = True
        with contextlib.suppress(StoreError, FileNotFoundError):
            self._store._request(requests.WRITE, self._path, self._sink.close)
            self._store.delete_file(self._path)


def is_transient(error: Exception) -> bool:
    """Return whether an error may be transient.

    A node may be starting, failing over, or unreachable.
    """
    text = str(error).lower()
    return not isinstance(error, FileNotFoundError) and any(part in text for part in _TRANSIENT)


def all_entries(access: Access) -> list[Any]:
    """Return all entries of an access control list.

    The three entries that follow from the mode are added, because the name node leaves them out.
    """
    from hdfs_native import AclEntry

    mode, entries = access.mode, [AclEntry(*entry) for entry in (*access.acl, *access.defaults)]
    basic = [
        AclEntry("user", "access", _action(mode >> 6)),
        AclEntry("group", "access", _action(mode >> 3)),
        AclEntry("other", "access", _action(mode)),
    ]
    named = {(entry.type, entry.scope, entry.name) for entry in entries}
    if any(entry.scope == "access" and entry.name for entry in entries):  # the group bits of the mode are then the mask
        basic = [entry for entry in basic if (entry.type, entry.scope, None) not in named]
    return [*entries, *(entry for entry in basic if (entry.type, entry.scope, entry.name) not in named)]


def _action(bits: int) -> Any:
    """Return the permission in the lowest three bits of a mode.

    >>> _action(0o754 >> 6), _action(0o754 >> 3), _action(0o754)
    ('rwx', 'r-x', 'r--')
    """
    return "".join(letter if bits & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))


def _inner(path: str) -> str:
    return parts(path).path.rstrip("/") or "/"


def _status(path: str, info: Any) -> FileStatus:
    return FileStatus(path, info.length, info.modification_time, "")
