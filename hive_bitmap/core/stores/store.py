"""Define the operations that each store has (`Store`).

Files and folders are given by complete Hadoop paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

import pyarrow as pa

from hive_bitmap.core.stores.access import Access
from hive_bitmap.core.stores.paths import is_local

TAIL_BYTES = 65_536
IMMUTABLE = "immutable"  # an etag: the file is never written again, such as a file of a Delta table
WITH_DELETES = "with deletes"  # an etag in counts: the file has deleted rows, but it is not known which
BEGUN = ".begun"  # suffix of an unfinished file of `replace_file`, after eight hex digits


@dataclass(frozen=True)
class FileStatus:
    """The status of a file.

    `size` is in bytes. `mtime_ms` is the modification time in ms since 1970, as Hadoop reads it. `etag` distinguishes
    contents of the same size and time; "" if the store has no entity tags. Two values of `etag` do not come from a
    store. IMMUTABLE marks a file that the log of a table lists, and that is never written again. WITH_DELETES
    marks, in a count, a file with deleted rows that no index can take into account; no recorded tag equals it.

    `deletes` is set only for a count, and only for files without WITH_DELETES. It identifies the set of rows that the
    table has deleted from the file; "" if no row is deleted.
    """

    path: str
    size: int
    mtime_ms: int
    etag: str
    deletes: str = ""

    @property
    def changed_ms(self) -> int:
        """The time of the last change in ms since 1970.

        For a local file, this is the ctime, which programs cannot set back.
        """
        if self.etag == IMMUTABLE or not is_local(self.path):
            return self.mtime_ms
        return int(self.etag.rpartition("-")[2]) // 1_000_000


@dataclass(frozen=True)
class Listing:
    """The content of a folder, without the content of its subfolders.

    `files` and `folders` (names) are sorted. `others` has the names of links, and of entries that are neither files nor
    folders. A link to a file is also in `files`, and a link to a folder also in `folders`.
    """

    files: list[FileStatus]
    folders: list[str]
    others: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names of all entries, sorted."""
        return sorted({*(file.path.rpartition("/")[2] for file in self.files), *self.folders, *self.others})


class Store(Protocol):
    """One file system, bucket or container.

    All operations raise FileNotFoundError for a file or folder that does not exist, and StoreError if the store fails.
    Failures of the local file system are OSErrors instead.
    """

    def status(self, path: str) -> FileStatus:
        """Return the status of a file.

        Raises FileNotFoundError for a folder.
        """

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder."""

    def listing(self, path: str) -> Listing:
        """Return the content of a folder."""

    def status_and_tail(self, path: str) -> tuple[FileStatus, bytes]:
        """Return the status of a file and its tail.

        The tail has at least min(size, TAIL_BYTES) bytes.
        """

    def open_input(self, path: str, listed: FileStatus | None) -> pa.NativeFile:
        """Open a file for random reading.

        `listed` is the status of the version to open; None stands for any version. Only stores with entity tags check
        the version.
        """

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Return `size` bytes of a file from the position `start`.

        The file must have these bytes.
        """

    def open_output(self, path: str, *, private: bool = False) -> pa.NativeFile | IO[bytes]:
        """Open a file for writing; an existing file is replaced.

        The file is complete when it is closed. If the store has permissions, only the owner of a `private` file can
        read the file until `set_access` allows more.
        """

    def make_folder(self, path: str) -> None:
        """Make a folder and its missing parents.

        Only users who may write in the nearest existing parent may write in the new folders. If this parent is sticky,
        other users may only add entries there; then only the owner may write in the new folders.
        """

    def make_new_folder(self, path: str, access: Access | None) -> None:
        """Make a folder in an existing parent, with this access.

        Nobody else may enter the folder before the access is set. If `access` is None, the folder gets the permissions
        that `make_folder` gives. Raises FileExistsError if the folder exists.
        """

    def delete_file(self, path: str) -> None:
        """Delete a file."""

    def read_whole(self, path: str, most: int) -> bytes:
        """Return the content of a small file.

        Raises OSError for a link, and for a file of more than `most` bytes.
        """

    def replace_file(self, path: str, content: bytes) -> None:
        """Write a small file, completely or not at all.

        An existing file or link is replaced.
        """

    def delete_files(self, folder: str, names: Sequence[str], root: str) -> None:
        """Delete the files with these names in a folder.

        Missing files are ignored. If a folder between `root` and the files has become a link, the link is not followed,
        and OSError is raised.
        """

    def remove_folder(self, path: str, root: str) -> None:
        """Remove a folder if it is empty and this user may do so.

        If a folder below `root` has become a link, the link is not followed.
        """

    def copy(self, source: str, target: str) -> bool:
        """Let the store itself copy or link the file `source` to `target`.

        Return False if the store cannot do this.
        """

    def access(self, path: str) -> Access | None:
        """Return the access of a file or folder.

        Return None if the store has no permissions or does not show permissions.
        """

    def set_access(self, path: str, access: Access) -> None:
        """Set the access of a file or folder, in a store with permissions.

        If this user may not change the group to the group of `access`, no group may read the file or folder.
        """


class AbortableWriter:
    """A file for writing that discards its content after an error.

    If the `with` block of such a file ends with an error, the content is discarded. `Store.open_output` of HDFS
    (hdfs-native) and of object stores returns subclasses.
    """

    closed = False

    def write(self, data: Any) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def discard(self) -> None:
        raise NotImplementedError

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Do nothing: closing the file stores the content."""

    def __enter__(self) -> AbortableWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def status_and_tail(store: Store, path: str) -> tuple[FileStatus, bytes]:
    """Implement `Store.status_and_tail` with two requests, for the status and for the tail."""
    status = store.status(path)
    start = max(status.size - TAIL_BYTES, 0)
    return status, store.read_range(path, start, status.size - start)


def made_by_another(path: str) -> FileExistsError:
    """Return the error of `Store.make_new_folder` for a folder that exists."""
    return FileExistsError(f"folder {path} already existed, so somebody else may write into it")


def remove_if_empty(store: Store, path: str, remove: Callable[[], object]) -> None:
    """Implement `Store.remove_folder`: list the folder, and call `remove` if it is empty."""

    try:
        if not store.listing(path).names:
            remove()
    except FileNotFoundError:
        pass


def read_whole(store: Store, path: str, most: int) -> bytes:
    """Implement `Store.read_whole` for a store without links."""
    with store.open_input(path, None) as source:
        if source.size() > most:
            raise OSError(f"it has {source.size():,} bytes, more than {most:,}")
        content: bytes = source.read()
        return content


def replace_file(store: Store, path: str, content: bytes) -> None:
    """Implement `Store.replace_file` for a store without links."""
    with store.open_output(path) as sink:
        sink.write(content)
