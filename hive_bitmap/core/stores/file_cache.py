"""Cache remote files that never change, in memory and on the local disk.

Shards are such files. Files are read in blocks of BLOCK bytes, so that a small shard takes a single request, and so do
adjacent parts of a large shard. Blocks are cached in memory, and on disk if a folder is set
(`hive_bitmap.stores.cache_folder`).

The cache on disk survives the process, and the processes of one user may share it. Entries are in a subfolder that only
this user can write. If another user owns or can write the subfolder, the cache is not used. An entry is a file; its
name is the hash of its key. The file gets this name when it is complete. It begins with the length of the content, and
a checksum of key and content. If length or checksum are wrong, the entry is removed, and the content is read from the
store again. Other files are never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from threading import Lock

from hive_bitmap.core.memory_budget import BUDGET, Cache
from hive_bitmap.core.stores.options import Options, current
from hive_bitmap.core.stores.store import Store

SUFFIX = ".piece"
SHRUNK_SHARE = 0.9  # share of `cache_size` to which a larger cache is shrunk
ABANDONED_SECONDS = 3600  # age of an unfinished file whose writer has certainly been killed
_OWN_NAME = re.compile(r"[0-9a-f]{64}\.(piece|[0-9a-f]{8}\.begun)")
_LENGTH_BYTES, _CRC_BYTES = 8, 4  # sizes of the two fields of the header, which precedes the content
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_written: dict[str, int] = {}  # bytes written to each folder since its size was last checked
_refused: set[str] = set()  # folders for which the warning was logged
_lock = Lock()
log = logging.getLogger(__name__)
BLOCK = 4 << 20
_blocks: Cache[tuple[str, int], bytes] = Cache("index files of stores", len)


def get(options: Options, key: str) -> bytes | None:
    """Return the entry of this key on disk; None if there is no entry."""
    if not options.cache_folder:
        return None
    name = _name(key)
    try:
        with _entries(options.cache_folder) as folder:
            content = _read(folder, name)
            entry = _checked(key, content)
            if entry is None:
                os.unlink(name, dir_fd=folder)
            else:
                os.utime(name, dir_fd=folder, follow_symlinks=False)  # `_shrink` removes the least recently used first
            return entry
    except FileNotFoundError:  # not cached, or another process has just removed it
        return None
    except OSError as e:
        _warn_once(options.cache_folder, e)
        return None


def put(options: Options, key: str, content: bytes) -> None:
    """Add an entry to the cache on disk.

    From time to time, the cache is then shrunk to `cache_size`. Nothing is added if no cache folder is set, or if the
    content is larger than a quarter of `cache_size`. If the cache folder cannot be used, a warning is logged once.
    """
    bound = options.number("cache_size") << 20
    if not options.cache_folder or len(content) > bound // 4:
        return
    try:
        os.makedirs(folder_in(options.cache_folder), mode=0o700, exist_ok=True)
        with _entries(options.cache_folder) as folder:
            _write(folder, _name(key), [*_header(key, content), content])
            if _is_check_due(options.cache_folder, len(content), bound):
                _shrink(folder, bound)
    except OSError as e:
        _warn_once(options.cache_folder, e)


def folder_in(cache_folder: str) -> str:
    """Return the subfolder of the cache folder with the entries of this user."""
    return os.path.join(cache_folder, f"hive_bitmap-{os.getuid()}")


def shrink(options: Options, bound: int) -> None:
    """Shrink the cache on disk to at most `bound` bytes.

    If all entries together have more than `bound` bytes, the least recently used entries are removed until at most the
    share SHRUNK_SHARE of `bound` is left.
    """
    with _entries(options.cache_folder) as folder:
        _shrink(folder, bound)


@contextmanager
def _entries(cache_folder: str) -> Iterator[int]:
    """Open the folder of the entries, and yield its file descriptor.

    Raises OSError if the folder is a link, or if other users own or can write the folder.
    """
    path = folder_in(cache_folder)
    folder = os.open(path, _FOLDER_FLAGS)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
            raise PermissionError(
                f"{path} belongs to user {status.st_uid} and has mode {stat.S_IMODE(status.st_mode):o}: only this user "
                "may own and write it; remove it, or name another cache folder"
            )
        yield folder
    finally:
        os.close(folder)


def _read(folder: int, name: str) -> bytes:
    """Return the content of the file `name` in a folder.

    Return b"" if `name` is not a regular file. `folder` is the file descriptor of the folder.
    """
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(opened).st_mode) else b""


def _write(folder: int, name: str, parts: list[bytes]) -> None:
    begun = f"{name.removesuffix(SUFFIX)}.{token_hex(4)}.begun"
    opened = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(opened, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(begun, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(begun, dir_fd=folder)
        raise


def _header(key: str, content: bytes) -> tuple[bytes, bytes]:
    crc = zlib.crc32(content, zlib.crc32(key.encode()))
    return len(content).to_bytes(_LENGTH_BYTES, "big"), crc.to_bytes(_CRC_BYTES, "big")


def _checked(key: str, stored: bytes) -> bytes | None:
    """Return the content of an entry without its header.

    Return None if `put` has not written these bytes for this key.
    """
    start = _LENGTH_BYTES + _CRC_BYTES
    content = stored[start:]
    return content if stored[:start] == b"".join(_header(key, content)) else None


def _shrink(folder: int, bound: int) -> None:
    entries = []
    for name in os.listdir(folder):
        if not _OWN_NAME.fullmatch(name):
            continue
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if name.endswith(SUFFIX):
                entries.append((status.st_mtime_ns, status.st_size, name))
            elif time.time() - status.st_mtime > ABANDONED_SECONDS:
                os.unlink(name, dir_fd=folder)
    total = sum(size for _, size, _ in entries)
    if total <= bound:
        return
    for _, size, name in sorted(entries):
        if total <= SHRUNK_SHARE * bound:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        total -= size


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest() + SUFFIX


def _is_check_due(folder: str, size: int, bound: int) -> bool:
    """Return whether the size of the folder is to be checked.

    `size` is the size in bytes of an entry that has just been added. The size of the folder is checked for the first
    entry that this process adds, and again whenever a tenth of `bound` has been written.
    """
    with _lock:
        written = _written.get(folder)
        due = written is None or written + size > (1 - SHRUNK_SHARE) * bound
        _written[folder] = 0 if due else (written or 0) + size
        return due


def _warn_once(folder: str, error: OSError) -> None:
    with _lock:
        new = folder not in _refused
        _refused.add(folder)
    if new:
        log.warning(
            "index files are cached in memory only, because the cache folder %s cannot be used: %s", folder, error
        )


def read(store: Store, path: str, size: int, start: int, length: int) -> bytes:
    """Read a range of a file that never changes, through the cache.

    The file at `path` has `size` bytes. Return `length` bytes from the position `start`. Adjacent blocks that are not
    cached are read by one request.
    """
    options = current()
    first, last = start // BLOCK, (start + length - 1) // BLOCK
    BUDGET.resize(options.number("memory") << 20)
    contents = {block: _blocks.get((path, block)) for block in range(first, last + 1)}
    for block in [block for block, content in contents.items() if content is None]:
        contents[block] = _on_disk(options, path, size, block)
    missing = [block for block, content in contents.items() if content is None]
    for run_first, run_last in _runs(missing):
        content = store.read_range(path, run_first * BLOCK, min((run_last + 1) * BLOCK, size) - run_first * BLOCK)
        for block in range(run_first, run_last + 1):
            at = (block - run_first) * BLOCK
            contents[block] = content[at : at + BLOCK]
            _blocks.put((path, block), content[at : at + BLOCK])
            put(options, _block_key(path, size, block), content[at : at + BLOCK])
    joined = b"".join(content for content in contents.values() if content is not None)
    return joined[start - first * BLOCK :][:length]


def _on_disk(options: Options, path: str, size: int, block: int) -> bytes | None:
    content = get(options, _block_key(path, size, block))
    if content is None or len(content) != min(BLOCK, size - block * BLOCK):
        return None
    _blocks.put((path, block), content)
    return content


def _block_key(path: str, size: int, block: int) -> str:
    return f"{block} of {size} {path}"


def forget() -> None:
    """Empty the cache in memory."""
    _blocks.clear()


def _runs(blocks: list[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run of consecutive numbers.

    >>> _runs([1, 2, 4])
    [(1, 2), (4, 4)]
    """
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and runs[-1][1] == block - 1:
            runs[-1] = runs[-1][0], block
        else:
            runs.append((block, block))
    return runs
