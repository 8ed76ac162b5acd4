"""The most memory that the processes of a run have had, and their CPU seconds, as Linux tells it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

DRIVER, JVM, WORKER = "this Python", "its JVM", "the largest Python worker"
_PROCESSES = Path("/proc")


def peaks(before: Mapping[str, int] | None = None) -> Mapping[str, int]:
    """The highest resident size in bytes of each kind of process so far; none where the system does not tell.

    Spark ends workers that have been idle for a minute, and what those had is not known any more: so `before`, what was
    found earlier, counts too.
    """
    found = dict(before or {})
    for process in family() if _PROCESSES.joinpath("self/status").is_file() else ():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            size = int(_said(process, "VmHWM").removesuffix("kB")) << 10
            kind = DRIVER if process == os.getpid() else JVM if _said(process, "Name") == "java" else WORKER
            found[kind] = max(size, found.get(kind, 0))
    return found


def family() -> Iterator[int]:
    """Yield this process and its descendants."""
    parents = {}
    for entry in _PROCESSES.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdigit():
                parents[int(entry.name)] = int(_said(int(entry.name), "PPid"))
    family = [os.getpid()]
    for member in family:
        family += [process for process, parent in parents.items() if parent == member]
    yield from family


def cpu_seconds(processes: Iterable[int]) -> float:
    """The CPU seconds of these processes so far, with those of processes of theirs that have ended."""
    ticks = 0
    for process in processes:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            fields = _PROCESSES.joinpath(str(process), "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _said(process: int, name: str) -> str:
    """A line of a process's status; "0 kB" of one that has ended but is still listed."""
    status = _PROCESSES.joinpath(str(process), "status").read_text()
    found = re.search(rf"^{name}:\s*(.+)$", status, re.MULTILINE)
    return found[1] if found else "0 kB"
