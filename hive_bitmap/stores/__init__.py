"""Files and folders wherever they lie, each named by its Hadoop path. The front of this room.

A store a module: `local`, `s3`, `clouds` (Google, Azure), `hdfs`, `libhdfs`. What is not there is a FileNotFoundError.
A store that cannot be asked, or fails as often as it is asked, is a StoreError: then queries are Spark's own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import RLock
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from hive_bitmap.errors import StoreError, Unsupported
from hive_bitmap.stores import block_cache, cached, clouds, hdfs, libhdfs, s3, speed
from hive_bitmap.stores.local import Local
from hive_bitmap.stores.options import Options, current
from hive_bitmap.stores.paths import absolute, is_local, local_path, parts
from hive_bitmap.stores.ranged import Ranged
from hive_bitmap.stores.speed import LOCAL, Speed
from hive_bitmap.stores.store import TAIL_BYTES, FileStatus, Listing, Store

__all__ = [
    "FileStatus",
    "Listing",
    "Speed",
    "StoreError",
    "absolute",
    "copy_permissions",
    "delete_file",
    "delete_folder",
    "exists",
    "has_tags",
    "is_local",
    "likely_speed_of",
    "link_or_copy",
    "listing",
    "local_path",
    "look",
    "make_folder",
    "open_input",
    "open_kept",
    "open_output",
    "options",
    "parallel",
    "paths",
    "pinned",
    "read_kept",
    "remove_empty_folders",
    "requests",
    "speed",
    "speed_of",
    "status",
]

_COPIED = 1 << 22  # bytes at a time
_TAGGED = (*s3.SCHEMES, *clouds.GOOGLE, *clouds.AZURE)
_pinned: ContextVar[Mapping[str, FileStatus]] = ContextVar("hive_bitmap_pinned", default=MappingProxyType({}))
_LOCAL = Local()
_opening = RLock()


def status(path: str) -> FileStatus:
    """The status of the file at `path`; raises FileNotFoundError, also for a folder."""
    return _store(path).status(path)


def exists(path: str) -> bool:
    """Whether there is a file or a folder at `path`."""
    return _store(path).exists(path)


def listing(path: str) -> Listing:
    """The files and the names of the folders that lie directly in `path`; raises FileNotFoundError."""
    return _store(path).listing(path)


def open_input(path: str) -> pa.NativeFile:
    """The file for random reading. Raises FileNotFoundError, and FileChanged for one that is `pinned` as another."""
    return _store(path).open_input(path, _pinned.get().get(path))


def has_tags(path: str) -> bool:
    """Whether the store can be asked for a file under the tag that a listing gave: then it need not be looked at."""
    return parts(path).scheme in _TAGGED


@contextmanager
def pinned(status: FileStatus) -> Iterator[None]:
    """Inside the block the file of this status is opened, and read, as that one and no other."""
    token = _pinned.set({**_pinned.get(), status.path: status})
    try:
        yield
    finally:
        _pinned.reset(token)


def open_kept(path: str, size: int) -> pa.NativeFile:
    """A file of `size` bytes that never changes, for random reading: far from here, what was read of it is kept."""
    if is_local(path):
        return open_input(path)
    store = _store(path)
    ranged = Ranged(size, lambda at, length: block_cache.read(store, path, size, at, length), ahead=0)
    return pa.PythonFile(ranged, mode="r")


def read_kept(path: str) -> bytes:
    """The whole of a small file that never changes; far from here it is kept in the cache folder, if there is one."""
    kept_there = None if is_local(path) else cached.get(current(), path)
    if kept_there is not None:
        return kept_there
    with open_input(path) as source:
        content: bytes = source.read()
    if not is_local(path):
        cached.put(current(), path, content)
    return content


def open_output(path: str) -> Any:
    """A new file for writing, in place of one of the same name."""
    return _store(path).open_output(path)


def make_folder(path: str) -> None:
    """Make the folder and its parents; one that is there already is kept."""
    _store(path).make_folder(path)


def delete_file(path: str) -> None:
    """Delete the file; raises FileNotFoundError where the store can tell."""
    _store(path).delete_file(path)


def delete_folder(path: str, last: Sequence[str] = ()) -> None:
    """Delete the folder with all that is in it, the files in it named `last` after all else, in this order.

    Raises FileNotFoundError.
    """
    _store(path).delete_folder(path, last)


def link_or_copy(source: str, target: str) -> None:
    """Make `target` a file with the bytes of `source`, inside the store where it can: as a hard link, or a copy."""
    same = parts(source)[:2] == parts(target)[:2] or (is_local(source) and is_local(target))
    if same and _store(source).copy(source, target):
        return
    with open_input(source) as reader, open_output(target) as writer:
        while chunk := reader.read(_COPIED):
            writer.write(chunk)


def copy_permissions(source: str, target: str) -> None:
    """Give the folder `target` the permissions of `source`, a folder of the same store, as far as this user may."""
    if parts(source)[:2] == parts(target)[:2] or (is_local(source) and is_local(target)):
        _store(target).copy_permissions(source, target)


def remove_empty_folders(path: str, root: str) -> None:
    """Remove the folder `path`, and its parents up to and with `root`, as long as nothing is in them."""
    _store(path).remove_empty_folders(path, root)


def look(path: str) -> tuple[FileStatus, int]:
    """The status of a file, and the CRC-32 of its last min(size, 65536) bytes, in as few requests as the store needs.

    Raises FileNotFoundError.
    """
    status, tail = _store(path).look(path)
    return status, zlib.crc32(tail[-TAIL_BYTES:])


def parallel(path: str) -> int:
    """How many requests may wait for the store of this path at the same time; 1 for the local file system."""
    return 1 if is_local(path) else current().number("parallel")


def speed_of(path: str) -> Speed:
    """How fast the store of this path answers; one that was not asked yet is asked whether there is such a path."""
    if is_local(path):
        return LOCAL
    if (known := speed.of(path)) is None:
        with speed.noted(path):
            exists(path)
        known = speed.of(path)
    return known or LOCAL


def likely_speed_of(path: str) -> Speed:
    """The same without asking: as long as nothing is known of a far store, that of a usual one."""
    return LOCAL if is_local(path) else speed.of(path) or speed.USUAL


def _store(path: str) -> Store:
    scheme, authority, _ = parts(path)
    if scheme in ("", "file"):
        return _LOCAL
    options = current()
    with _opening:  # threads that come at once would each open one, with a bound on requests of its own
        return _remote(scheme, authority, options)


@lru_cache(maxsize=64)
def _remote(scheme: str, authority: str, options: Options) -> Store:
    if scheme not in _STORES:
        raise Unsupported(f"no reader for files of scheme {scheme!r}; known: {', '.join(['file', *_STORES])}")
    return _STORES[scheme](options, scheme, authority)


def _open_hdfs(options: Options, scheme: str, authority: str) -> Store:
    client = libhdfs if options.hdfs_client == "libhdfs" else hdfs
    return client.open_cluster(options, scheme, authority)


# What opens the store of a scheme; a store more is a module, and a line here.
_STORES: dict[str, Callable[[Options, str, str], Store]] = {
    **dict.fromkeys(hdfs.SCHEMES, _open_hdfs),
    **dict.fromkeys(s3.SCHEMES, lambda options, _, bucket: s3.open_bucket(options, bucket)),
    **dict.fromkeys(clouds.GOOGLE, lambda options, _, bucket: clouds.open_google(options, bucket)),
    **dict.fromkeys(clouds.AZURE, lambda options, _, container: clouds.open_azure(options, container)),
}
