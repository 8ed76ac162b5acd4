"""Starts `victim` again and again in one warehouse, until it was killed as often as wanted; reports its lines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaigns import killing

PROGRAM = Path(__file__).with_name("victim.py")
HOME = Path(__file__).parents[2]
SECONDS = 300  # most of a run: a driver that hangs is a finding too
POLL = 0.005  # seconds
TAIL = 3000  # characters of what a run printed that are shown


@dataclass
class Report:
    """How often acts were killed, by way and by act, and how often they ended before."""

    kills: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return f"{self.kills.total()} kills {dict(self.kills)}, {self.survived.total()} ended before"


def run(folder: Path, seed: int, kills: int, home: str | None = None, conf: Mapping[str, str] | None = None) -> Report:
    """Kill acts on an index whose files are in `home`; raise AssertionError if a check of a run does not hold."""
    report = Report()
    ways = [way for way in killing.WAYS if way != "syscall" or shutil.which("strace")]
    given = {"home": home or f"file:{folder}", "folder": str(folder), "conf": dict(conf or {}), "seed": seed}
    for number in range(kills + 1):  # the last run checks only
        way = [ways[number % len(ways)]] if number < kills else []
        lines = _run({**given, "run": number, "ways": way}, folder)
        acts = [str(line["act"]) for line in lines if "act" in line]
        report.survived.update(str(line["survived"]) for line in lines if "survived" in line)
        if way:
            report.kills[f"{acts[-1]} at a {way[0]}"] += 1
    return report


def _run(given: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """One run of the program until it is killed; its lines."""
    said, log, trace = folder / "said", folder / "log", folder / "trace"
    trace.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    with said.open("w") as output, log.open("w") as errors:
        program = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(given)],
            stdout=output,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        end = time.monotonic() + SECONDS
        while program.poll() is None and time.monotonic() < end and not _was_killed(trace):
            time.sleep(POLL)
    late = time.monotonic() > end
    _kill_session(program.pid)
    status = program.wait()
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    story = f"seed {given['seed']}, run {given['run']}, {given['ways']}: {lines[-3:]}"
    wanted = -signal.SIGKILL if given["ways"] else 0
    if late or status != wanted or (given["ways"] and not any("act" in line for line in lines)):
        raise AssertionError(f"{story}: {'no end' if late else status}\n{log.read_text(errors='replace')[-TAIL:]}")
    return lines


def _was_killed(trace: Path) -> bool:
    """Whether strace has killed one of the processes."""
    return trace.exists() and killing.KILLED in trace.read_text(errors="replace")


def _kill_session(leader: int) -> None:
    """Kill all processes of a session, also those that lead groups of their own, as Spark's workers do."""
    shown = subprocess.run(["ps", "-axo", "pid="], capture_output=True, text=True, check=True).stdout
    for pid in map(int, shown.split()):
        try:
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
