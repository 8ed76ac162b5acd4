"""What a store is: a few operations on files and folders, each named by the whole of its Hadoop path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

import pyarrow as pa

from hive_bitmap.stores.paths import is_local, parent

TAIL_BYTES = 65_536


@dataclass(frozen=True)
class FileStatus:
    """What a store tells of a file: size in bytes, modification time in ms since 1970, as Hadoop reads it.

    `etag` tells contents apart that have the same size and time; it is "" where the store has no such thing.
    """

    path: str
    size: int
    mtime_ms: int
    etag: str

    @property
    def changed_ms(self) -> int:
        """When the file was last changed: for local files the time of the inode, which nobody can set back."""
        return int(self.etag.rpartition("-")[2]) // 1_000_000 if is_local(self.path) else self.mtime_ms


@dataclass(frozen=True)
class Listing:
    """What lies directly in a folder: files, and the names of folders, both sorted."""

    files: list[FileStatus]
    folders: list[str]


class Store(Protocol):
    """One file system, bucket or container. What is not there raises FileNotFoundError, in every operation.

    What cannot be asked at all raises StoreError, but in the local file system, whose errors are OSErrors.
    """

    def status(self, path: str) -> FileStatus:
        """That of a file; a folder is none."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""

    def listing(self, path: str) -> Listing:
        """What lies directly in a folder."""

    def look(self, path: str) -> tuple[FileStatus, bytes]:
        """The status of a file and its last bytes, TAIL_BYTES or more if there are so many."""

    def open_input(self, path: str, known: FileStatus | None) -> pa.NativeFile:
        """A file for random reading; `known` is its status, where it has been asked for already."""

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Bytes of a file that is known to have them."""

    def open_output(self, path: str) -> pa.NativeFile | IO[bytes]:
        """A new file for writing, in place of one of the same name; it appears when it is closed."""

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents, as far as they are missing."""

    def delete_file(self, path: str) -> None:
        """Delete a file."""

    def delete_folder(self, path: str, last: Sequence[str]) -> None:
        """Delete a folder with all that is in it, the files in it named `last` after all else, in this order."""

    def copy(self, source: str, target: str) -> bool:
        """Make a file with the bytes of another one of this store, without moving them; False where that cannot be."""

    def copy_permissions(self, source: str, target: str) -> None:
        """Give a folder the permissions of another one, where there are such, and as far as this user may."""

    def remove_empty_folders(self, path: str, root: str) -> None:
        """Remove a folder, and its parents up to and with `root`, as long as nothing is in them."""


class Discarding:
    """A file for writing whose content is dropped, not stored, where an error ends the `with` block."""

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
        """Nothing is to be seen before the end."""

    def __enter__(self) -> Discarding:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def status_and_tail(store: Store, path: str) -> tuple[FileStatus, bytes]:
    """What `look` tells, of a store that has to be asked for each by itself."""
    status = store.status(path)
    start = max(status.size - TAIL_BYTES, 0)
    return status, store.read_range(path, start, status.size - start)


def remove_while_empty(store: Store, path: str, root: str, remove: Callable[[str], object]) -> None:
    """What `remove_empty_folders` does, where a folder has to be listed to see that nothing is in it."""
    while path.startswith(root):
        try:
            there = store.listing(path)
            if there.files or there.folders:
                return
            remove(path)
        except FileNotFoundError:
            pass
        path = parent(path)


def in_order(names: Collection[str], last: Sequence[str]) -> list[str]:
    """The names, those of `last` behind all others and in its order.

    >>> in_order(["z", "b", "a"], ["b", "a"])
    ['z', 'b', 'a']
    """
    ranks = {name: rank for rank, name in enumerate(last)}
    return sorted(names, key=lambda name: ranks.get(name, -1))
