"""Read and write files and folders in any store, by their Hadoop paths.

Other packages read and write files only through this module. Each kind of store has a module: `local`, `clouds` (S3,
Google, Azure), `hdfs`, `libhdfs`. All but `local` are loaded with the first remote path (`remote`). Functions raise
FileNotFoundError for a missing file or folder, and StoreError for a store that cannot be reached or still fails after
the configured number of attempts; queries then fall back to plain Spark. Other errors of the local file system are
OSErrors.

* Settings: The path determines the store. Stores need the Hadoop configuration of the session. The configuration is
  read when the first remote path is used (`options`, `metastore/session_settings`), and again when it is ten seconds
  old. Threads get the configuration from their context, and tasks get it with their function
  (`tasks/distribution.with_store_settings`). The repr() of options never shows values.
* Reading: Files of object stores (`objects`) and HDFS (`hdfs`) are read in ranges (`ranged`): first the end of the
  file, then at least a megabyte from the start of each read. So a footer takes one request, and the columns of a row
  group take one request. All requests for an open object require the same entity tag; with `pinned`, this is the tag of
  a listed file. Files that never change, above all shards, are cached in blocks (`file_cache`).
* Requests: `requests` counts requests. The counts of tasks come back through an accumulator (`tasks/task_requests`), or
  with the results (`distribution.in_tasks`).
* Failures: Transient errors are retried inside this package only. A lasting error becomes a StoreError with a
  one-sentence message, in which anything that looks like a secret is masked (`requests`). StoreError is not an OSError,
  so that the failure of a store is not mistaken for a damaged file. A query becomes a full scan
  (`preparing/spark_only`), and a build fails with BuildFailed.
* Tasks: Tasks run on other machines, which may not reach a store. So before a plan relies on tasks, a task tries to
  open a file (`preparing/spark_only`), once for each session and store, unless Spark is local. Success is remembered
  for an hour, failure for five minutes.
* Permissions (`access`): At first only the owner may read a file of an index. Then a shard gets the strictest access of
  its base files, and a manifest gets the strictest access of its shards. A generation is at most as readable as its
  base folder and the parents of that folder (`generation.accesses`).
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa

from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import speed
from hive_bitmap.core.stores.access import Access, strictest
from hive_bitmap.core.stores.local import Local
from hive_bitmap.core.stores.options import current
from hive_bitmap.core.stores.paths import absolute, canonical, is_local, local_path, normal, parent, parts, with_parents
from hive_bitmap.core.stores.speed import LOCAL, Speed
from hive_bitmap.core.stores.store import BEGUN, IMMUTABLE, TAIL_BYTES, WITH_DELETES, FileStatus, Listing, Store
from hive_bitmap.errors import StoreError

__all__ = [
    "BEGUN",
    "IMMUTABLE",
    "WITH_DELETES",
    "Access",
    "FileStatus",
    "Listing",
    "Speed",
    "StoreError",
    "absolute",
    "access_of",
    "canonical",
    "delete_file",
    "delete_files",
    "enclosing",
    "estimated_speed_of",
    "exists",
    "has_tags",
    "is_link",
    "is_local",
    "link_or_copy",
    "listing",
    "local_path",
    "make_folder",
    "make_new_folder",
    "normal",
    "open_immutable",
    "open_input",
    "open_output",
    "options",
    "parallel",
    "paths",
    "permissions_of",
    "pinned",
    "read_immutable",
    "read_whole",
    "remove_folder",
    "replace_file",
    "requests",
    "set_access",
    "speed",
    "speed_of",
    "status",
    "status_and_crc",
    "with_parents",
]

T = TypeVar("T")
MANY_FOLDERS = 8  # least number of folders of an object store that are listed together
_STORE_PARTS = 3  # `s3a:`, "" and the bucket, in a path that is split at slashes
_CHUNK_BYTES = 1 << 22  # bytes that are copied at a time
_pinned: ContextVar[Mapping[str, FileStatus]] = ContextVar("hive_bitmap_pinned", default=MappingProxyType({}))
_LOCAL = Local()


def status(path: str) -> FileStatus:
    """Return the status of the file at `path`.

    Raises FileNotFoundError, also for a folder.
    """
    return _store(path).status(path)


def exists(path: str) -> bool:
    """Return whether there is a file or a folder at `path`."""
    return _store(path).exists(path)


def listing(path: str) -> Listing:
    """Return the files and folders directly in the folder `path`.

    Raises FileNotFoundError.
    """
    return _store(path).listing(path)


def listings(folders: Sequence[str]) -> list[Listing | None]:
    """Return the listing of each folder; None for a folder that does not exist.

    Many folders of an object store are listed together if all of them are below one folder. Raises NotADirectoryError
    if one of `folders` is a file. An object store cannot report this: there, the result for the file is None.
    """
    listed: dict[str, Listing | None] = {}
    if len(folders) >= MANY_FOLDERS and (root := _common_folder(folders)) and not is_local(root):
        from hive_bitmap.core.stores import remote

        listed |= remote.listings(_store(root), root, folders)
    others = list(dict.fromkeys(folder for folder in folders if folder not in listed))
    read = map_parallel(partial(_if_exists, _folder), others, max(map(parallel, others), default=1))
    listed |= zip(others, read, strict=True)
    return [listed[folder] for folder in folders]


def _folder(path: str) -> Listing:
    try:
        return listing(path)
    except NotADirectoryError as e:
        raise NotADirectoryError(errno.ENOTDIR, "not a folder but a file", path) from e


def _if_exists(read: Callable[[str], T], path: str) -> T | None:
    try:
        return read(path)
    except FileNotFoundError:
        return None


def _common_folder(folders: Sequence[str]) -> str:
    """Return the innermost common parent of folders.

    Return "" if the folders are not in one store.

    >>> _common_folder(["s3a://b/t/day=1", "s3a://b/t/day=2"]), _common_folder(["s3a://b/t", "s3a://c/t"])
    ('s3a://b/t', '')
    """
    names = [folder.rstrip("/").split("/") for folder in (min(folders), max(folders))]
    common = [first for first, last in takewhile(lambda pair: pair[0] == pair[1], zip(*names, strict=False))]
    return "/".join(common) if len(common) > _STORE_PARTS else ""


def statuses(paths: Sequence[str]) -> list[FileStatus | None]:
    """Return the status of each file; None for a file that does not exist.

    Each local file takes a system call. For remote files, their folders are listed.
    """
    if all(map(is_local, paths)):
        return [_if_exists(status, path) for path in paths]
    folders = list(dict.fromkeys(path.rpartition("/")[0] for path in paths))
    files = {file.path: file for listed in listings(folders) if listed is not None for file in listed.files}
    return [files.get(path) for path in paths]


def open_input(path: str) -> pa.NativeFile:
    """Open a file for random reading.

    Raises FileNotFoundError. In stores with entity tags (`has_tags`), raises FileChanged if the file is `pinned` and
    has changed; other stores do not check this.
    """
    return _store(path).open_input(path, _pinned.get().get(path))


def has_tags(path: str) -> bool:
    """Return whether reads in the store of this path can require an entity tag.

    In such a store, each read checks that the file still has its listed tag. So a listed file need not be checked again
    before it is read.
    """
    if is_local(path):
        return False
    from hive_bitmap.core.stores import remote

    return parts(path).scheme in remote.TAGGED


@contextmanager
def pinned(status: FileStatus) -> Iterator[None]:
    """Inside the `with` block, let `open_input` open only one version of a file.

    `status` is the status of the file in this version. Only stores with entity tags (`has_tags`) check the version.
    """
    token = _pinned.set({**_pinned.get(), status.path: status})
    try:
        yield
    finally:
        _pinned.reset(token)


def open_immutable(path: str, size: int) -> pa.NativeFile:
    """Open a file of `size` bytes that never changes, for random reading.

    If the file is remote, each part that is read is cached.
    """
    if is_local(path):
        return open_input(path)
    from hive_bitmap.core.stores import remote

    return remote.open_immutable(path, size)


def read_immutable(path: str) -> bytes:
    """Return the content of a small file that never changes.

    A remote file is cached in the cache folder, if one is set.
    """
    if is_local(path):
        with open_input(path) as source:
            content: bytes = source.read()
            return content
    from hive_bitmap.core.stores import remote

    return remote.read_immutable(path)


def open_output(path: str, *, private: bool = False) -> Any:
    """Open a file for writing; an existing file is replaced.

    Only the owner can read a `private` file, until `set_access` allows more.
    """
    return _store(path).open_output(path, private=private)


def make_folder(path: str) -> None:
    """Make a folder and its missing parents.

    Only users who may write in the nearest existing parent may write in the new folders.
    """
    _store(path).make_folder(path)


def make_new_folder(path: str, access: Access | None = None) -> None:
    """Make a folder in an existing parent.

    With `access`, the folder gets these permissions; before they are set, only this user may enter the folder. Without
    `access`, the folder gets the permissions that `make_folder` gives. Raises FileExistsError if the folder exists, for
    example because another user who may write in the parent has made it. Does nothing in object stores, which have no
    folders.
    """
    _store(path).make_new_folder(path, access)


def is_link(path: str) -> bool:
    """Return whether a path is a link.

    A link may lead to files of other users. Only the last part of the path is looked at. Remote stores have no links.
    """
    return is_local(path) and os.path.islink(local_path(path))


def delete_file(path: str) -> None:
    """Delete a file.

    Raises FileNotFoundError for a missing file; object stores may not report it.
    """
    _store(path).delete_file(path)


def delete_files(folder: str, names: Sequence[str], root: str) -> None:
    """Delete the files with these names in `folder`.

    Missing files are ignored. If a folder between `root` and the files is a link, the link is not followed, and OSError
    is raised. If one of the files is a link, the link itself is deleted, not its target.
    """
    _store(folder).delete_files(folder, names, root)


def remove_folder(path: str, root: str) -> None:
    """Remove a folder if it is empty and this user may do so.

    Links below `root` are not followed.
    """
    _store(path).remove_folder(path, root)


def read_whole(path: str, most: int) -> bytes:
    """Return the content of a small file.

    Raises OSError for a link, and for a file of more than `most` bytes.
    """
    return _store(path).read_whole(path, most)


def replace_file(path: str, content: bytes) -> None:
    """Write a small file; an existing file or link is replaced.

    On local disks, the replacement is atomic.
    """
    _store(path).replace_file(path, content)


def link_or_copy(source: str, target: str) -> None:
    """Make `target` a hard link to `source`, or a copy of `source`.

    If possible, the store itself copies the data.
    """
    if _is_same_store(source, target) and _store(source).copy(source, target):
        return
    with open_input(source) as reader, open_output(target, private=True) as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            writer.write(chunk)
    set_access(target, access_of([source], parent(target)))


def enclosing(folder: str, root: str) -> list[str]:
    """Return a folder and its parents, without `root` and the parents of `root`.

    The folder itself is in the result even if it is `root` or a parent of `root`. If `root` is in another store, the
    result is an empty list. Links on the local file system are resolved.
    """
    if not _is_same_store(folder, root):
        return []
    real = canonical if is_local(folder) else normal  # the authority of other stores selects the client
    above_root = {canonical(path) for path in with_parents(real(root))}
    paths = list(with_parents(real(folder)))
    return [*paths[:1], *(path for path in paths[1:] if canonical(path) not in above_root)]


def access_of(files: Sequence[str], folder: str) -> Access | None:
    """Return the access for a new file that is made from `files`.

    The new file will be in `folder`. Only users who may read all of `files` may read the new file. Files that no longer
    exist or are in another store are ignored. If no file remains, the result is the access of the folder, converted by
    `Access.of_file`. Returns None if the store of the folder has no permissions, or if neither a file nor the folder
    exists.
    """
    near = (path for path in files if _is_same_store(path, folder))
    accesses = [access for access in map(permissions_of, near) if access is not None]
    if accesses:
        return strictest(accesses)
    of_folder = permissions_of(folder)
    return of_folder and of_folder.of_file


def set_access(path: str, access: Access | None) -> None:
    """Set the access of a file, as far as this user may.

    The access None changes nothing.
    """
    if access is not None:
        _store(path).set_access(path, access)


def permissions_of(path: str) -> Access | None:
    """Return the access of a file or folder.

    Return None if the file or folder is missing, or if its store has no permissions.
    """
    try:
        return _store(path).access(path)
    except FileNotFoundError:
        return None


def _is_same_store(first: str, second: str) -> bool:
    return parts(first)[:2] == parts(second)[:2] or (is_local(first) and is_local(second))


def status_and_crc(path: str) -> tuple[FileStatus, int]:
    """Return the status of a file and the CRC-32 of its tail.

    The tail has min(size, 65536) bytes. If the store allows this, one request gets both. Raises FileNotFoundError.
    """
    status, tail = _store(path).status_and_tail(path)
    return status, zlib.crc32(tail[-TAIL_BYTES:])


def parallel(path: str) -> int:
    """Return how many requests to a path's store may be in flight.

    The result is 1 for local files.
    """
    return 1 if is_local(path) else current().number("parallel")


def speed_of(path: str) -> Speed:
    """Return the speed of the store of this path.

    If no request has been measured so far, a request is made and measured.
    """
    if is_local(path):
        return LOCAL
    if (measured := speed.of(path)) is None:
        with speed.noted(path):
            exists(path)
        measured = speed.of(path)
    return measured or LOCAL


def estimated_speed_of(path: str) -> Speed:
    """Estimate the speed of the store of this path without a request.

    The result is a typical speed if no request has been measured so far.
    """
    return LOCAL if is_local(path) else speed.of(path) or speed.USUAL


def _store(path: str) -> Store:
    if is_local(path):
        return _LOCAL
    from hive_bitmap.core.stores import remote  # loads the clients of all remote stores

    return remote.store_of(path)
