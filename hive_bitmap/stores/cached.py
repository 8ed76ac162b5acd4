"""What was read of files that never change, on the local disk, where `hive_bitmap.stores.cache_folder` names a folder.

It outlives the process, and several processes may share it: a piece is a file of its own, which appears whole, under a
name made of what it holds a piece of. One that is damaged or cut short is read from the store anew.
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
LEFT = 0.9  # of the bound is left where there was more
_SUM = 4  # bytes of the CRC-32 before the content
_written: dict[str, int] = {}  # bytes since a folder was last measured
_unwritable: set[str] = set()  # folders of which that was said
_lock = Lock()
log = logging.getLogger(__name__)


def get(options: Options, what: str) -> bytes | None:
    """A piece; None where it is not kept."""
    if not options.cache_folder:
        return None
    path = _path(options, what)
    try:
        content = path.read_bytes()
        os.utime(path)  # the longest unused go first
    except OSError:  # never kept, or another process has just let it go
        return None
    if len(content) >= _SUM and zlib.crc32(memoryview(content)[_SUM:]) == int.from_bytes(content[:_SUM], "big"):
        return content[_SUM:]
    path.unlink(missing_ok=True)
    return None


def put(options: Options, what: str, content: bytes) -> None:
    """Keep a piece, and no more than `cache_size` of all."""
    bound = options.number("cache_size") << 20
    if not options.cache_folder or len(content) > bound // 4:
        return
    path = _path(options, what)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.crc32(content).to_bytes(_SUM, "big"))
                file.write(content)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        if _due(path.parent, len(content), bound):
            shrink(path.parent, bound)
    except OSError as e:
        _say_once(options.cache_folder, e)


def shrink(folder: Path, bound: int) -> None:
    """Let go of the pieces that were not used for the longest, where all take more than the bound."""
    found = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # another process does the same
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


def _path(options: Options, what: str) -> Path:
    return Path(options.cache_folder) / (hashlib.sha256(what.encode()).hexdigest() + SUFFIX)


def _due(folder: Path, size: int, bound: int) -> bool:
    """Whether the folder is to be measured: at first, and when a tenth of the bound was written since."""
    with _lock:
        written = _written.get(str(folder))
        due = written is None or written + size > (1 - LEFT) * bound
        _written[str(folder)] = 0 if due else (written or 0) + size
        return due


def _say_once(folder: str, error: OSError) -> None:
    with _lock:
        new = folder not in _unwritable
        _unwritable.add(folder)
    if new:
        log.warning("index files are not kept in the cache folder %s, which cannot be written: %s", folder, error)
