"""Read and write markers: small JSON files with a folder's owner and state.

Readers of tables ignore markers. An unreadable marker is reported as a state of its folder, with a sentence, and never
fails a command: a flipped bit, or anyone who may write into the folder, can make a marker unreadable.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeGuard

from hive_bitmap.core import stores

MOST_BYTES = 64 << 20  # a marker with the names of a million shards has 40 MB
GRACE_SECONDS = 24 * 3600  # seconds for which a process of another machine is assumed to be running
_CRC = "crc32"
_STARTTIME = 22 - 3  # index in `_stat` of field 22 of proc(5)'s /proc/<pid>/stat, which starts at field 3
_END_OF_TIME = 1e11  # seconds, in the year 5138
Content = Mapping[str, Any]
_in_work: Counter[str] = Counter()  # folders in which builds of this process are at work
_lock = Lock()


class Unreadable(Exception):
    """A marker exists and cannot be read.

    The message is a clause with the reason.
    """


@dataclass(frozen=True)
class Author:
    """The process that wrote a marker, and the time.

    `started` is the time at which the work began, in seconds since 1970. `process_start` is the start of the process,
    in ticks since the machine booted; 0 if the system does not provide this time. `process_start` distinguishes the
    process from later processes with the same number. `pid_namespace` is the namespace of the process number, because
    containers may share the name of their host; "" if the system does not provide a namespace.
    """

    host: str
    pid: int
    started: float
    process_start: int = 0
    pid_namespace: str = ""

    @classmethod
    def this_process(cls) -> Author:
        return cls(socket.gethostname(), os.getpid(), time.time(), _start_of(os.getpid()), _pid_namespace())

    @classmethod
    def of(cls, content: Content, name: str) -> Author:
        """Return the author in the content of the marker `name`.

        Raises Unreadable if the content has no author.
        """
        host, pid, started = (content.get(key) for key in ("host", "pid", "started"))
        if isinstance(host, str) and isinstance(pid, int) and pid > 0 and is_time(started):
            began, space = content.get("process_start"), content.get("pid_namespace")
            return cls(
                host,
                pid,
                float(started),
                began if isinstance(began, int) else 0,
                space if isinstance(space, str) else "",
            )
        raise Unreadable(f"its marker {name} does not say who wrote it")

    def is_at_work(self, complete: bool) -> bool:
        """Return whether the process may still do the marker's work.

        `complete` says whether this work is done. A process of this machine may be at work if a process with its number
        is alive. After GRACE_SECONDS, the work must also be incomplete, and the living process must have the recorded
        start, because restarted containers use the same few numbers again. For a process of another machine or
        container, the result is true for GRACE_SECONDS, because this machine cannot find out whether that process is
        alive.
        """
        young = time.time() - self.started < GRACE_SECONDS
        if self.host != socket.gethostname() or self.pid_namespace not in ("", _pid_namespace()):
            return young  # nobody here knows whether a process of another machine or container is alive
        return _alive(self.pid) and (young or (not complete and self._may_be_alive()))

    @property
    def is_this_process(self) -> bool:
        """Whether this process wrote the marker.

        The result is False if the system does not provide the start of processes.
        """
        this = Author.this_process()
        return bool(self.process_start) and replace(self, started=0) == replace(this, started=0)

    def _may_be_alive(self) -> bool:
        return not self.process_start or _start_of(self.pid) in (0, self.process_start)


def _pid_namespace() -> str:
    """Return the namespace of process numbers (namespaces(7)); "" if the system has none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def begin_work(folder: str) -> None:
    """Record that a build of this process works in a folder, until `end_work`."""
    with _lock:
        _in_work[folder] += 1


def end_work(folders: Iterable[str]) -> None:
    """Record that a build of this process no longer works in these folders.

    Folders without a recorded build are ignored.
    """
    with _lock:
        _in_work.subtract(folders)
        for folder in [folder for folder, builds in _in_work.items() if builds <= 0]:
            del _in_work[folder]


def is_in_work(folder: str, author: Author, complete: bool) -> bool:
    """Return whether a marker's author may still work in the folder.

    If the author is this process, the records of `begin_work` and `end_work` decide. For other processes,
    `Author.is_at_work` decides; `complete` is its argument.
    """
    if author.is_this_process:
        return folder in _in_work
    return author.is_at_work(complete)


def is_time(value: object) -> TypeGuard[float]:
    """Return whether a value of a marker is a time in seconds since 1970."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _END_OF_TIME


def write(folder: str, name: str, content: Content) -> None:
    """Write the marker `name` into a folder, with a checksum of its content."""
    stored = {**content, _CRC: _crc32(content)}
    stores.replace_file(f"{folder}/{name}", json.dumps(stored).encode())


def read(folder: str, name: str) -> Content | None:
    """Return the content of the marker `name`; None if there is no marker.

    Raises Unreadable, and StoreError if the store fails.
    """
    try:
        content = json.loads(stores.read_whole(f"{folder}/{name}", MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise Unreadable(f"its marker {name} cannot be read: {e.strerror or e}") from e
    except (ValueError, RecursionError) as e:  # not UTF-8, not JSON, or too deep
        raise Unreadable(f"its marker {name} is damaged") from e
    if not isinstance(content, dict) or content.pop(_CRC, None) not in (None, _crc32(content)):
        raise Unreadable(f"its marker {name} is damaged")
    return content


def is_begun(entry: str, name: str) -> bool:
    """Return whether an entry of a folder is an unfinished marker `name`.

    A killed process leaves unfinished markers.

    >>> is_begun("_retired.0123abcd.begun", "_retired")
    True
    """
    return bool(re.fullmatch(re.escape(name) + r"\.[0-9a-f]{8}" + re.escape(stores.BEGUN), entry))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return not _has_ended(pid)


def _has_ended(pid: int) -> bool:
    """Return whether a process is a zombie; False on systems without /proc."""
    return _stat(pid)[:1] == [b"Z"]


def _start_of(pid: int) -> int:
    """Return when a process started, in ticks since boot; 0 without /proc."""
    fields = _stat(pid)
    return int(fields[_STARTTIME]) if len(fields) > _STARTTIME else 0


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/<pid>/stat after the program's name.

    The name is skipped because it may contain anything (proc(5)).
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _crc32(content: Content) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
