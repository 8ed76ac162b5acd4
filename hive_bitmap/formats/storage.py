"""Opening and listing files by Hadoop path strings, without a JVM.

A path is written as Hadoop's `Path.toString()` writes it: `file:/w/a b`, `hdfs://nn:8020/x`, `s3a://bucket/x`; nothing
is percent-encoded, so it is cut by hand and never by a URL parser. Local files go through `os`, others through
`pyarrow.fs`, whose options come from the environment; one file system is kept per process, scheme and authority.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import shutil
import stat
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs

from hive_bitmap.errors import Unsupported

TAIL_BYTES = 65_536
_PATH = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL)
_BUCKETS = ("s3", "s3a", "s3n", "gs")


@dataclass(frozen=True)
class FileStatus:
    """What a store tells of a file: size in bytes, modification time in ms since 1970, as Hadoop reads it."""

    path: str
    size: int
    mtime_ms: int
    etag: str

    @property
    def changed_ms(self) -> int:
        """When the file was last changed: for local files the time of the inode, which nobody can set back."""
        return int(self.etag.rpartition("-")[2]) // 1_000_000 if is_local(self.path) else self.mtime_ms


def status(path: str) -> FileStatus:
    """The status of the file at `path`; raises FileNotFoundError, also for a folder."""
    if is_local(path):
        try:
            found = os.stat(local_path(path))
        except NotADirectoryError as e:
            raise FileNotFoundError(errno.ENOENT, "no such file, for its folder is a file", path) from e
        if stat.S_ISDIR(found.st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a file but a folder", path)
        return _local_status(path, found)
    store, inner = _store(path)
    info = store.get_file_info(inner)
    if info.type != pafs.FileType.File:
        raise FileNotFoundError(errno.ENOENT, "no such file", path)
    return FileStatus(path, info.size, info.mtime_ns // 1_000_000, "")


def exists(path: str) -> bool:
    """Whether there is a file or a folder at `path`."""
    if is_local(path):
        return os.path.exists(local_path(path))
    store, inner = _store(path)
    return bool(store.get_file_info(inner).type != pafs.FileType.NotFound)


def list_folder(path: str) -> list[FileStatus]:
    """The files (not the folders) that lie directly in `path`, sorted by path; raises FileNotFoundError."""
    prefix = path.rstrip("/") + "/"
    if is_local(path):
        with os.scandir(local_path(path)) as entries:
            found = [status for entry in entries if (status := _entry_status(prefix, entry)) is not None]
    else:
        store, inner = _store(path)
        found = [
            FileStatus(prefix + info.base_name, info.size, info.mtime_ns // 1_000_000, "")
            for info in store.get_file_info(pafs.FileSelector(inner))
            if info.type == pafs.FileType.File
        ]
    return sorted(found, key=lambda file: file.path)


def open_input(path: str) -> pa.NativeFile:
    """The file for random reading; raises FileNotFoundError.

    Local files are read, not mapped: a mapped file that another process truncates kills the reader with SIGBUS.
    """
    if is_local(path):
        return pa.OSFile(local_path(path), "rb")
    store, inner = _store(path)
    return store.open_input_file(inner)


def open_output(path: str) -> pa.NativeFile:
    """A new file for writing; one of the same name is replaced."""
    if is_local(path):
        return pa.OSFile(local_path(path), "wb")
    store, inner = _store(path)
    return store.open_output_stream(inner)


def make_folder(path: str) -> None:
    """Make the folder and its parents; one that is there already is kept."""
    if is_local(path):
        os.makedirs(local_path(path), exist_ok=True)
    else:
        store, inner = _store(path)
        store.create_dir(inner, recursive=True)


def delete_file(path: str) -> None:
    """Delete the file; raises FileNotFoundError."""
    if is_local(path):
        os.unlink(local_path(path))
    else:
        store, inner = _store(path)
        store.delete_file(inner)


def delete_folder(path: str, last: Sequence[str] = ()) -> None:
    """Delete the folder with all that is in it, the files in it named `last` after all else, in this order.

    Raises FileNotFoundError.
    """
    if last:
        for name in subfolders(path):
            delete_folder(f"{path}/{name}")
        ranks = {f"{path}/{name}": rank for rank, name in enumerate(last)}
        for file in sorted(list_folder(path), key=lambda file: ranks.get(file.path, -1)):
            with contextlib.suppress(FileNotFoundError):  # another process deletes the same folder
                delete_file(file.path)
    if is_local(path):
        shutil.rmtree(local_path(path))
    else:
        store, inner = _store(path)
        store.delete_dir(inner)


def link_or_copy(source: str, target: str) -> None:
    """Make `target` a file with the bytes of `source`: a hard link where the store has them, else a copy."""
    if is_local(source) and is_local(target):
        try:
            os.link(local_path(source), local_path(target))
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            shutil.copyfile(local_path(source), local_path(target))
        return
    with open_input(source) as reader, open_output(target) as writer:
        while chunk := reader.read(1 << 22):
            writer.write(chunk)


def tail_crc32(file: str | pa.NativeFile) -> int:
    """CRC-32 of the last min(size, 65536) bytes of a path or of a file that is open for random reading."""
    if isinstance(file, str):
        with open_input(file) as opened:
            return tail_crc32(opened)
    size = file.size()
    wanted = min(size, TAIL_BYTES)
    return zlib.crc32(file.read_at(wanted, size - wanted))


def is_local(path: str) -> bool:
    """Whether the path lies in the local file system: scheme `file`, or none."""
    return _parts(path)[0] in ("", "file")


def local_path(path: str) -> str:
    """The operating system's name of a local Hadoop path: `file:/w/a b` is `/w/a b`."""
    return _parts(path)[2]


def _parts(path: str) -> tuple[str, str, str]:
    found = _PATH.fullmatch(path)
    if found is None or not found["path"]:
        raise Unsupported(f"not an absolute Hadoop path: {path!r}")
    return (found["scheme"] or "").lower(), found["authority"] or "", found["path"]


def _local_status(path: str, found: os.stat_result) -> FileStatus:
    return FileStatus(path, found.st_size, found.st_mtime_ns // 1_000_000, f"{found.st_ino}-{found.st_ctime_ns}")


def _entry_status(prefix: str, entry: os.DirEntry[str]) -> FileStatus | None:
    """The status of a file in a folder, None for what is none, or is gone since the folder was opened."""
    try:
        return _local_status(prefix + entry.name, entry.stat()) if entry.is_file() else None
    except FileNotFoundError:
        return None


def _store(path: str) -> tuple[pafs.FileSystem, str]:
    scheme, authority, inner = _parts(path)
    store = _file_system(scheme, authority)
    if scheme in _BUCKETS:
        return store, f"{authority}{inner}".rstrip("/")
    if scheme in ("abfs", "abfss"):
        return store, f"{authority.partition('@')[0]}{inner}".rstrip("/")
    return store, inner


@functools.cache
def _file_system(scheme: str, authority: str) -> pafs.FileSystem:
    if scheme in ("hdfs", "viewfs"):
        return pafs.HadoopFileSystem.from_uri(f"{scheme}://{authority or 'default'}")
    if scheme in ("s3", "s3a", "s3n"):
        return pafs.S3FileSystem()
    if scheme == "gs":
        return pafs.GcsFileSystem()
    if scheme in ("abfs", "abfss"):
        account = authority.partition("@")[2].partition(".")[0]
        return pafs.AzureFileSystem(account_name=account)
    known = "file, hdfs, viewfs, s3, s3a, s3n, gs, abfs, abfss"
    raise Unsupported(f"no reader for files of scheme {scheme!r}; known: {known}")


def subfolders(path: str) -> list[str]:
    """The names of the folders that lie directly in `path`, sorted; raises FileNotFoundError."""
    if is_local(path):
        with os.scandir(local_path(path)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    store, inner = _store(path)
    found = store.get_file_info(pafs.FileSelector(inner))
    return sorted(info.base_name for info in found if info.type == pafs.FileType.Directory)


def copy_permissions(source: str, target: str) -> None:
    """Give the local folder `target` the mode and, where this user may, the group of `source`; stores have neither."""
    if is_local(source) and is_local(target):
        wanted = os.stat(local_path(source))
        os.chmod(local_path(target), stat.S_IMODE(wanted.st_mode))
        if os.stat(local_path(target)).st_gid != wanted.st_gid:
            with contextlib.suppress(PermissionError):
                os.chown(local_path(target), -1, wanted.st_gid)


def absolute(path: str) -> str:
    """A path of the operating system as an absolute one."""
    return os.path.abspath(path)


def remove_empty_folders(path: str, root: str) -> None:
    """Remove the local folder `path`, and its parents up to and with `root`, as long as nothing is in them."""
    while is_local(path) and path.startswith(root):
        try:
            os.rmdir(local_path(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return
            raise
        path = path.rpartition("/")[0]
