"""Cache of remote files that never change, on the local disk, in the folder `hive_bitmap.stores.cache_folder`.

The cache survives the process, and processes may share it. Each entry is a file, named by the hash of its key, that
is renamed to that name when it is complete. A damaged or truncated entry is removed and read from the store again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
import zlib
from pathlib import Path
from threading import Lock

from hive_bitmap.stores.options import Options

SUFFIX = ".piece"
LEFT = 0.9  # fraction of `cache_size` to which a larger cache is shrunk
_CRC_BYTES = 4  # the CRC-32 of the content precedes it
_written: dict[str, int] = {}  # bytes written to each folder since its size was last checked
_unwritable: set[str] = set()  # folders for which the warning was logged
_lock = Lock()
log = logging.getLogger(__name__)


def get(options: Options, key: str) -> bytes | None:
    """Return the entry of this key; None if it is not cached."""
    if not options.cache_folder:
        return None
    path = _path(options, key)
    try:
        content = path.read_bytes()
        os.utime(path)  # `shrink` removes the least recently used entries first
    except OSError:  # not cached, or another process has just removed it
        return None
    crc, entry = content[:_CRC_BYTES], content[_CRC_BYTES:]
    if len(crc) == _CRC_BYTES and zlib.crc32(entry) == int.from_bytes(crc, "big"):
        return entry
    path.unlink(missing_ok=True)
    return None


def put(options: Options, key: str, content: bytes) -> None:
    """Add an entry, and shrink the cache if it is larger than `cache_size`."""
    bound = options.number("cache_size") << 20
    if not options.cache_folder or len(content) > bound // 4:
        return
    path = _path(options, key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.crc32(content).to_bytes(_CRC_BYTES, "big"))
                file.write(content)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        if _is_check_due(path.parent, len(content), bound):
            shrink(path.parent, bound)
    except OSError as e:
        _warn_once(options.cache_folder, e)


def shrink(folder: Path, bound: int) -> None:
    """Remove the least recently used entries if all entries together take more than `bound` bytes."""
    found = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            status = entry.stat()
            found.append((status.st_mtime_ns, status.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    if total <= bound:
        return
    for _, size, path in sorted(found):
        if total <= LEFT * bound:
            return
        Path(path).unlink(missing_ok=True)
        total -= size


def _path(options: Options, key: str) -> Path:
    return Path(options.cache_folder) / (hashlib.sha256(key.encode()).hexdigest() + SUFFIX)


def _is_check_due(folder: Path, size: int, bound: int) -> bool:
    """Return whether to check the size of the folder: at first, and each time a tenth of `bound` has been written."""
    with _lock:
        written = _written.get(str(folder))
        due = written is None or written + size > (1 - LEFT) * bound
        _written[str(folder)] = 0 if due else (written or 0) + size
        return due


def _warn_once(folder: str, error: OSError) -> None:
    with _lock:
        new = folder not in _unwritable
        _unwritable.add(folder)
    if new:
        log.warning("index files are not kept in the cache folder %s, which cannot be written: %s", folder, error)
