"""The `Store` protocol: operations on files and folders.

Each file or folder is given by its complete Hadoop path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

import pyarrow as pa

from hive_bitmap.core.stores.access import Access
from hive_bitmap.core.stores.paths import is_local

TAIL_BYTES = 65_536
IMMUTABLE = "immutable"  # in place of a tag: the file is never written again under its path, like the files of Delta
WITH_DELETES = "with deletes"  # the same for counts, if it is not known which rows of the file are deleted
BEGUN = ".begun"  # suffix, after eight hex digits, of an unfinished file of `replace_file`


@dataclass(frozen=True)
class FileStatus:
    """The status of a file.

    It has the size in bytes and the modification time in ms since 1970, the same that Hadoop reads. `etag`
    distinguishes contents of the same size and time; it is "" if the store has no entity tags, and IMMUTABLE if the log
    of a table lists the file, and not its folder. If that log has deleted rows of the file since, and rows are counted,
    `deletes` identifies this set of deleted rows; no index has the tag WITH_DELETES.
    """

    path: str
    size: int
    mtime_ms: int
    etag: str
    deletes: str = ""

    @property
    def changed_ms(self) -> int:
        """The time of the last change in ms since 1970.

        For local files it is the ctime, which programs cannot set back.
        """
        if self.etag == IMMUTABLE or not is_local(self.path):
            return self.mtime_ms
        return int(self.etag.rpartition("-")[2]) // 1_000_000


@dataclass(frozen=True)
class Listing:
    """The content of a folder, not recursive.

    It has the files, and the names of the folders, both sorted. `others` are the names of entries that are links, or
    neither files nor folders. A link to a file or folder is also listed as that.
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

        `listed` is its status, if that has been read already.
        """

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Return a range of a file, which must have so many bytes."""

    def open_output(self, path: str, *, private: bool = False) -> pa.NativeFile | IO[bytes]:
        """Open a file for writing, which replaces one of the same name.

        It is complete when it is closed. From the beginning, only its owner can read a `private` file, if the store has
        permissions.
        """

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents, unless they exist.

        Users who may not write in the folder above may not write in them. In a sticky folder, where other users may
        only add entries, only the owner may write in the new one.
        """

    def make_new_folder(self, path: str, access: Access | None) -> None:
        """Make a folder whose parent exists, with this access.

        Without an access it is like a folder of `make_folder`. With an access, nobody else may enter it before the
        access is set. Raises FileExistsError if it exists.
        """

    def delete_file(self, path: str) -> None:
        """Delete a file."""

    def read_whole(self, path: str, most: int) -> bytes:
        """Return the content of a small file.

        Raises OSError for a link, and for a file of more than `most` bytes.
        """

    def replace_file(self, path: str, content: bytes) -> None:
        """Write a small file, completely or not at all.

        It replaces a file or a link of the same name.
        """

    def delete_files(self, folder: str, names: Sequence[str], root: str) -> None:
        """Delete the files directly in a folder that have these names.

        A missing file is not an error. A folder below `root`, or its folder, may have become a link: the link is not
        followed, and raises OSError.
        """

    def remove_folder(self, path: str, root: str) -> None:
        """Remove a folder if it is empty and this user may.

        Otherwise nothing is done. Links are treated as in `delete_files`.
        """

    def copy(self, source: str, target: str) -> bool:
        """Copy a file inside the store, not through this process.

        Returns False if that cannot be done.
        """

    def access(self, path: str) -> Access | None:
        """Return who may read a file or folder.

        Returns None if the store has no permissions, or cannot return them.
        """

    def set_access(self, path: str, access: Access) -> None:
        """Set the access of a file or folder.

        The store must have permissions. If this user may not give it the group, no group can read it.
        """


class AbortableWriter:
    """Base of files for writing.

    If an error ends the `with` block, the content is discarded instead of stored.
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
    """Implement `Store.status_and_tail` with two requests.

    One is for the status, and one for the tail.
    """
    status = store.status(path)
    start = max(status.size - TAIL_BYTES, 0)
    return status, store.read_range(path, start, status.size - start)


def made_by_another(path: str) -> FileExistsError:
    """Return the error of `Store.make_new_folder` for a folder that exists."""
    return FileExistsError(f"folder {path} already existed, so somebody else may write into it")


def remove_if_empty(store: Store, path: str, remove: Callable[[], object]) -> None:
    """Implement `Store.remove_folder` by listing the folder.

    The store needs that to see if it is empty.
    """
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
